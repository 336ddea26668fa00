package idverify

type SIMCheckService struct{ api *api }
type SubscriberCheckService struct{ api *api }
type ReachabilityService struct{ api *api }
type Console struct{ api *api }

func NewConsole(baseURL string, c Credentials, opts ...Option) (*Console, error) {
	api, err := newAPI(baseURL, c, opts)
	if err != nil {
		return nil, err
	}
	return &Console{api: api}, nil
}
