// Package send tells notices: by a signed webhook, or by e-mail. Whatever it
// reaches, it reaches through a guard that the caller gives.
package send

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"gantry.dev/orchestrator/notice"
)

// Guard says what may be reached.
type Guard interface {
	// CheckURL says why a URL may not be reached, as far as it can be told before
	// its host is resolved.
	CheckURL(u *url.URL) error
	// DialContext connects, or says why not.
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
	// Refused reports whether an error of DialContext is the guard's own word.
	Refused(err error) bool
}

// The headers of a webhook.
const (
	SignatureHeader = "Gantry-Signature"
	IDHeader        = "Gantry-Notice-Id" // the same whenever the notice is told again
)

// timeout bounds one attempt.
const timeout = 10 * time.Second

// The codes of failures.
const (
	codeEgress      = "EGRESS"      // the guard does not let it through
	codeUnreachable = "UNREACHABLE" // no connection, or no answer in time
	codeStatus      = "STATUS_"     // with the status that the other side answered
	codeMail        = "MAIL_REFUSED"
)

// Sign returns the signature of a body at a moment (UTC ms) under a secret:
// "t=SECONDS,v1=HEX", where HEX is HMAC-SHA256 over "SECONDS.body".
func Sign(secret, body []byte, nowMs int64) string {
	seconds := strconv.FormatInt(nowMs/1000, 10)
	return "t=" + seconds + ",v1=" + hex.EncodeToString(mac(secret, seconds, body))
}

func mac(secret []byte, seconds string, body []byte) []byte {
	sum := hmac.New(sha256.New, secret)
	sum.Write([]byte(seconds + "."))
	sum.Write(body)
	return sum.Sum(nil)
}

// Why a signature does not hold.
var (
	ErrSignature = errors.New("the signature is not of this body under this secret")
	ErrReplayed  = errors.New("the signature is too old, or of the future")
)

// Verify reports whether a signature is of the body, and made no longer than
// window (ms) before or after nowMs. For receivers. Errors: ErrSignature;
// ErrReplayed.
func Verify(secret []byte, signature string, body []byte, nowMs, windowMs int64) error {
	seconds, given := "", ""
	for part := range strings.SplitSeq(signature, ",") {
		switch name, value, _ := strings.Cut(part, "="); name {
		case "t":
			seconds = value
		case "v1":
			given = value
		}
	}
	sum, err := hex.DecodeString(given)
	if err != nil || !hmac.Equal(sum, mac(secret, seconds, body)) {
		return ErrSignature
	}
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || nowMs-at*1000 > windowMs || at*1000-nowMs > windowMs {
		return ErrReplayed
	}
	return nil
}

// Webhook posts a message, signed at nowMs (UTC ms). What the other side
// answers counts by its status alone; it leads nowhere else. Errors:
// *notice.Failure.
func Webhook(ctx context.Context, guard Guard, address string, secret []byte, message notice.Message, nowMs int64) error {
	target, err := url.Parse(address)
	if err != nil || guard.CheckURL(target) != nil || len(secret) == 0 {
		return &notice.Failure{Code: codeEgress, Final: true}
	}
	body, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("notice: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(body))
	if err != nil {
		return &notice.Failure{Code: codeEgress, Final: true}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "Gantry")
	request.Header.Set(IDHeader, message.ID)
	request.Header.Set(SignatureHeader, Sign(secret, body, nowMs))
	dialing := &dialing{guard: guard}
	transport := &http.Transport{DialContext: dialing.DialContext, DisableKeepAlives: true, TLSHandshakeTimeout: timeout, MaxResponseHeaderBytes: 64 << 10}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(request)
	if err != nil {
		return dialing.failure()
	}
	defer answer.Body.Close() //nolint:errcheck // nothing of it is read further
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10)
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return &notice.Failure{Code: codeStatus + strconv.Itoa(answer.StatusCode)}
	}
	return nil
}

// dialing remembers what the guard said.
type dialing struct {
	guard            Guard
	refused, reached bool
}

// DialContext connects through the guard.
func (d *dialing) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.guard.DialContext(ctx, network, address)
	d.refused = err != nil && d.guard.Refused(err)
	d.reached = err == nil
	return conn, err
}

func (d *dialing) failure() *notice.Failure {
	if d.refused {
		return &notice.Failure{Code: codeEgress, Final: true}
	}
	return &notice.Failure{Code: codeUnreachable}
}
