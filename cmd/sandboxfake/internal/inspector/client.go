package inspector

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// call calls an operation of the control plane and decodes a successful response into result. It
// returns the status of the response. The error contains neither the path nor the response, because
// they can contain check IDs.
func (p *pages) call(ctx context.Context, method, operation string, body, result any) (int, error) {
	content, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, method, p.URL+indexPath+operation, bytes.NewReader(content))
	if err != nil {
		return 0, fmt.Errorf("inspector: invalid control plane URL")
	}
	if body == nil {
		request.Body, request.ContentLength = http.NoBody, 0
	}
	request.Header.Set("Authorization", "Bearer "+p.ControlToken)
	request.Header.Set("Content-Type", "application/json")
	response, err := p.Client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("inspector: the control plane is unreachable")
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return response.StatusCode, fmt.Errorf("inspector: the control plane responded with %d", response.StatusCode)
	}
	if err := json.NewDecoder(response.Body).Decode(result); err != nil {
		return response.StatusCode, fmt.Errorf("inspector: invalid response of the control plane")
	}
	return response.StatusCode, nil
}
