package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
)

// object is a JSON object of a log. Its values keep their original text.
type object map[string]json.RawMessage

// containers are the members that contain a request, or a part of it, in the JSON of common logs:
// of pino and Caddy (req, request), HAR (log, entries, request), Google Cloud (httpRequest,
// jsonPayload), the Elastic Common Schema (http, request) and AWS (requestContext, http).
var containers = []string{"log", "entries", "event", "request", "req", "httpRequest", "http", "jsonPayload", "requestContext"}

// maxNested is the depth to which containers are searched.
const maxNested = 4

// parseJSON parses a request in the JSON of a log or of a gateway.
func (c *capture) parseJSON(input []byte) error {
	d := json.NewDecoder(bytes.NewReader(input))
	var root json.RawMessage
	if err := d.Decode(&root); err != nil {
		return errors.New("the input is not valid JSON")
	}
	if d.More() {
		return errors.New("the input contains more than one JSON value (pass one request)")
	}
	var objects []object
	if err := collect(root, maxNested, &objects); err != nil {
		return err
	}
	c.setJSONHeaders(objects)
	if err := c.setJSONTarget(objects); err != nil {
		return err
	}
	return c.setJSONBody(objects)
}

// collect appends the object in raw and those in its containers.
func collect(raw json.RawMessage, depth int, objects *[]object) error {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
		if len(list) > 1 {
			return errors.New("the input contains more than one request (pass one)")
		}
		raw = list[0]
	}
	var o object
	if json.Unmarshal(raw, &o) != nil || o == nil {
		return nil
	}
	*objects = append(*objects, o)
	if depth == 0 {
		return nil
	}
	for _, name := range containers {
		if nested, ok := o[name]; ok {
			if err := collect(nested, depth-1, objects); err != nil {
				return err
			}
		}
	}
	return nil
}

// text returns the first member with one of the names that is a non-empty string.
func text(objects []object, names ...string) string {
	for _, name := range names {
		for _, o := range objects {
			var s string
			if json.Unmarshal(o[name], &s) == nil && s != "" {
				return s
			}
		}
	}
	return ""
}

// setJSONTarget sets the method, the request target and the host.
func (c *capture) setJSONTarget(objects []object) error {
	if m := requestLine.FindStringSubmatch(text(objects, "request", "request_line")); m != nil {
		c.method = m[1]
		c.setTarget(m[2])
	}
	if method := text(objects, "method", "httpMethod", "request_method", "requestMethod", "verb"); method != "" {
		c.method = strings.ToUpper(method)
	}
	host := text(objects, "http_host", "domainName", "authority", "domain")
	if host == "" && c.header.Get("Host") == "" {
		// A log can also contain the name of its own machine as host.
		for _, o := range objects {
			if text([]object{o}, "method", "request_method", "uri", "url") != "" && text([]object{o}, "host") != "" {
				host = text([]object{o}, "host")
			}
		}
	}
	target := text(objects, "rawPath", "url", "originalUrl", "requestUrl", "request_uri", "requestUri", "uri", "target", "path", "requestPath", "original", "full")
	if target == "" {
		// The member url of the Elastic Common Schema is an object.
		for _, o := range objects {
			var u object
			if json.Unmarshal(o["url"], &u) == nil {
				target = text([]object{u}, "full", "original", "path")
				objects = append(objects, u)
			}
		}
	}
	c.host = host
	if target != "" {
		c.setTarget(target)
	}
	if c.method == "" || c.target == "" {
		return errors.New("the JSON contains no HTTP request (expected members such as method, url and headers)")
	}
	if !strings.Contains(c.target, "?") {
		if query := c.jsonQuery(objects); query != "" {
			c.target += "?" + query
		}
	}
	return nil
}

// jsonQuery returns the query of a log that contains it apart from the path.
func (c *capture) jsonQuery(objects []object) string {
	if raw := text(objects, "rawQueryString", "query_string", "queryString", "rawQuery", "args", "query"); raw != "" {
		return strings.TrimPrefix(raw, "?")
	}
	// A load balancer of AWS passes the parameters escaped, and API Gateway decodes them.
	escape := url.QueryEscape
	for _, o := range objects {
		if _, balancer := o["elb"]; balancer {
			escape = func(s string) string { return s }
		}
	}
	for _, name := range []string{"multiValueQueryStringParameters", "queryStringParameters", "query"} {
		for _, o := range objects {
			var pairs []string
			for _, p := range orderedPairs(o[name]) {
				pairs = append(pairs, escape(p.name)+"="+escape(p.value))
			}
			if len(pairs) > 0 {
				c.lose("the log contains the query only as separate parameters: their order and escapes are lost")
				return strings.Join(pairs, "&")
			}
		}
	}
	return ""
}

// pair is a header or parameter.
type pair struct{ name, value string }

// orderedPairs returns headers or parameters of any form: an object with strings or lists, a list
// of objects with name and value, a list of pairs, or a list of names and values in turn.
func orderedPairs(raw json.RawMessage) []pair {
	var pairs []pair
	add := func(name string, value json.RawMessage) {
		for _, s := range stringsOf(value) {
			pairs = append(pairs, pair{name, s})
		}
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		members(raw, add)
		return pairs
	}
	var flat []string
	if json.Unmarshal(raw, &flat) == nil && len(flat)%2 == 0 {
		for i := 0; i < len(flat); i += 2 {
			pairs = append(pairs, pair{flat[i], flat[i+1]})
		}
		return pairs
	}
	for _, entry := range list {
		var o object
		var couple []json.RawMessage
		switch {
		case json.Unmarshal(entry, &couple) == nil && len(couple) == 2:
			if names := stringsOf(couple[0]); len(names) == 1 {
				add(names[0], couple[1])
			}
		case json.Unmarshal(entry, &o) == nil:
			if name := text([]object{o}, "name", "key", "Name", "Key"); name != "" {
				add(name, firstOf(o, "value", "Value", "values"))
			} else {
				members(entry, add)
			}
		}
	}
	return pairs
}

func firstOf(o object, names ...string) json.RawMessage {
	for _, name := range names {
		if value, ok := o[name]; ok {
			return value
		}
	}
	return nil
}

// members calls f with each member of a JSON object, in its order.
func members(raw json.RawMessage, f func(name string, value json.RawMessage)) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return
	}
	for d.More() {
		name, err := d.Token()
		key, ok := name.(string)
		var value json.RawMessage
		if err != nil || !ok || d.Decode(&value) != nil {
			return
		}
		f(key, value)
	}
}

// stringsOf returns a string, number or list of these.
func stringsOf(raw json.RawMessage) []string {
	var s string
	if json.Unmarshal(raw, &s) == nil && len(raw) > 0 && raw[0] == '"' {
		return []string{s}
	}
	var n json.Number
	if json.Unmarshal(raw, &n) == nil && n != "" {
		return []string{n.String()}
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	var all []string
	for _, entry := range list {
		var s string
		if json.Unmarshal(entry, &s) == nil {
			all = append(all, s)
		}
	}
	return all
}

// setJSONHeaders sets the headers. nginx logs each header as a member such as http_date.
func (c *capture) setJSONHeaders(objects []object) {
	for _, name := range []string{"multiValueHeaders", "rawHeaders", "headers", "requestHeaders", "request_headers", "header"} {
		for _, o := range objects {
			pairs := orderedPairs(o[name])
			for _, p := range pairs {
				if isHeaderName(p.name) && !strings.ContainsAny(p.value, "\r\n") {
					c.header.Add(p.name, strings.TrimSpace(p.value))
				}
			}
			if len(pairs) > 0 {
				return
			}
		}
	}
	for _, o := range objects {
		for name, value := range o {
			if header, ok := strings.CutPrefix(name, "http_"); ok && isHeaderName(header) {
				for _, s := range stringsOf(value) {
					if s != "-" && s != "" && !strings.ContainsAny(s, "\r\n") {
						c.header.Add(strings.ReplaceAll(header, "_", "-"), s)
					}
				}
			}
		}
	}
}

// setJSONBody sets the body. A log that contains the body as JSON has parsed it.
func (c *capture) setJSONBody(objects []object) error {
	for _, name := range []string{"body_base64", "bodyBase64", "body", "rawBody", "raw_body", "request_body", "requestBody", "postData"} {
		for _, o := range objects {
			raw, ok := o[name]
			if !ok || string(raw) == "null" {
				continue
			}
			var post object
			if name == "postData" && json.Unmarshal(raw, &post) == nil { // HAR
				raw = post["text"]
			}
			if name == "body" && json.Unmarshal(raw, &post) == nil && post["content"] != nil { // Elastic Common Schema
				raw = post["content"]
			}
			var s string
			if json.Unmarshal(raw, &s) != nil {
				c.body, c.parsedBody = bytes.Clone(raw), true
				c.lose("the log contains the body as JSON, not as text: its original white space and escapes may be lost")
				return nil
			}
			c.body = []byte(s)
			if isTrue(objects, "isBase64Encoded") || strings.Contains(strings.ToLower(name), "base64") {
				decoded, err := base64.StdEncoding.DecodeString(s)
				if err != nil {
					return errors.New("the body is not valid base64")
				}
				c.body = decoded
			}
			return nil
		}
	}
	c.noBody = c.method == "POST"
	return nil
}

func isTrue(objects []object, name string) bool {
	for _, o := range objects {
		if string(o[name]) == "true" {
			return true
		}
	}
	return false
}
