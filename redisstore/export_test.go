package redisstore

// MaxOpenClaims is the maximum of each number of OpenClaims.
const MaxOpenClaims = maxOpenClaims

// OpenClaims returns the number of claims that later calls recognize, and of those that wait for
// their expiry.
func (s *Replays) OpenClaims() [2]int {
	s.open.mu.Lock()
	defer s.open.mu.Unlock()
	return [2]int{len(s.open.byID), len(s.open.queued)}
}
