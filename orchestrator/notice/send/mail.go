package send

import (
	"context"
	"net"
	"strconv"
	"strings"

	"github.com/wneessen/go-mail"

	"gantry.dev/orchestrator/notice"
)

// TLS says how the connection to a mail server is protected.
type TLS int

// How the connection to a mail server is protected.
const (
	StartTLS TLS = iota // or nothing is sent
	ImplicitTLS
	NoTLS // never with a password
)

// Server is a mail server.
type Server struct {
	Address  string // "host:port"
	From     string
	User     string
	Password string
	TLS      TLS
}

// Mail sends a message to an address. A repeat has the same Message-ID. Errors:
// *notice.Failure.
func Mail(ctx context.Context, guard Guard, server Server, to string, message notice.Message) error {
	host, port, err := net.SplitHostPort(server.Address)
	number, bad := strconv.Atoi(port)
	if err != nil || bad != nil || server.TLS == NoTLS && server.User != "" {
		return &notice.Failure{Code: codeEgress, Final: true}
	}
	letter, err := letter(server.From, to, message)
	if err != nil {
		return &notice.Failure{Code: codeMail, Final: true}
	}
	dialing := &dialing{guard: guard}
	options := []mail.Option{mail.WithPort(number), mail.WithTimeout(timeout), mail.WithDialContextFunc(dialing.DialContext), mail.WithHELO("gantry")}
	switch server.TLS {
	case ImplicitTLS:
		options = append(options, mail.WithSSL())
	case NoTLS:
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	default:
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory))
	}
	if server.User != "" {
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(server.User), mail.WithPassword(server.Password))
	}
	client, err := mail.NewClient(host, options...)
	if err != nil {
		return &notice.Failure{Code: codeMail, Final: true}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := client.DialAndSendWithContext(ctx, letter); err != nil {
		failure := dialing.failure()
		if dialing.reached && !failure.Final {
			failure.Code = codeMail
		}
		return failure
	}
	return nil
}

// letter writes a message in words.
func letter(from, to string, m notice.Message) (*mail.Msg, error) {
	letter := mail.NewMsg()
	if err := letter.From(from); err != nil {
		return nil, err
	}
	if err := letter.To(to); err != nil {
		return nil, err
	}
	_, domain, _ := strings.Cut(from, "@")
	letter.SetMessageIDWithValue(m.ID + "@" + domain)
	letter.SetDate()
	letter.SetGenHeader("Auto-Submitted", "auto-generated")
	letter.Subject(subject(m))
	lines := []string{subject(m) + ".", "", "item:  " + m.Item, "kind:  " + m.Kind, "run:   " + m.Run, "agent: " + m.Agent, "since: " + m.Since}
	if m.Until != "" {
		lines = append(lines, "until: "+m.Until)
	}
	if m.Link != "" {
		lines = append(lines, "", m.Link)
	}
	letter.SetBodyString(mail.TypeTextPlain, strings.Join(lines, "\r\n")+"\r\n")
	return letter, nil
}

func subject(m notice.Message) string {
	switch {
	case m.Step == notice.Escalated:
		return "Gantry: nobody has reacted to what waits in " + m.Organisation
	case m.Step.IsReminder():
		return "Gantry: something still waits for you in " + m.Organisation
	}
	return "Gantry: something waits for you in " + m.Organisation
}
