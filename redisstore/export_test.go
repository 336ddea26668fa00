package redisstore

// MaxOpenClaims is the maximum of OpenClaims.
const MaxOpenClaims = maxOpenClaims

// OpenClaims returns the number of claims in memory.
func (s *Replays) OpenClaims() int {
	s.open.mu.Lock()
	defer s.open.mu.Unlock()
	return max(len(s.open.byID), len(s.open.queued))
}
