package redis

// MaxOpenClaims is the bound of OpenClaims.
const MaxOpenClaims = maxOpenClaims

// OpenClaims returns how many claims the store keeps in memory.
func (s *Store) OpenClaims() int {
	s.open.mu.Lock()
	defer s.open.mu.Unlock()
	return max(len(s.open.byID), len(s.open.queued))
}
