package wire

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/url"
	"time"

	"gantry.dev/agents"
	"gantry.dev/agents/credential"
	"gantry.dev/agents/tool"
	"gantry.dev/cmd/gantry/service"
	"gantry.dev/orchestrator/bus"
	"gantry.dev/orchestrator/notice"
	"gantry.dev/orchestrator/notice/send"
)

// tellPeople records who is to be told of what waits, and tells them, until the
// context ends.
func (p *Platform) tellPeople(ctx context.Context) {
	recipients := service.Recipients{Service: p.Service}
	follower := &notice.Follower{Store: p.Notices, People: recipients, Now: p.Store.Now,
		Recorded: func(organisation string) { p.tellInbox(ctx, organisation) }}
	courier := &notice.Courier{Store: p.Notices, Sender: sender{recipients, p.Config.Egress, p.secrets, p.Store.Now}, Now: p.Store.Now,
		Owner: p.Config.Worker + "/" + p.Source.ID(), Limits: notice.DefaultLimits(), Log: p.Config.Log}
	ticker := time.NewTicker(p.Config.Notices)
	defer ticker.Stop()
	for {
		for _, pass := range []func(context.Context) error{follower.Pass, courier.Pass} {
			if err := pass(ctx); err != nil && ctx.Err() == nil {
				p.Config.Log.Warn("notices", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// tellInbox tells whoever follows an inbox of the organisation, in every
// process, that it changed without a record. Who misses it sees it at the next
// change.
func (p *Platform) tellInbox(ctx context.Context, organisation string) {
	p.Hub.Offer(bus.Batch{Inboxes: []string{organisation}})
	if body, err := json.Marshal(bus.Notice{Inboxes: []string{organisation}}); err == nil {
		_ = p.bus.Publish(ctx, bus.TopicEvents, bus.Message{ID: p.Source.ID(), Body: body})
	}
}

// sender tells notices by the configuration in force.
type sender struct {
	recipients service.Recipients
	egress     func(agents.Organisation) (*tool.Egress, error)
	secrets    tool.Credentials
	now        func(context.Context) (int64, error)
}

// Send tells one notice, if the person is still told that way.
func (s sender) Send(ctx context.Context, n notice.Notice) error {
	o, told, err := s.recipients.Told(ctx, n)
	if err != nil {
		return err
	}
	if !told {
		return notice.ErrWithdrawn
	}
	egress, err := s.egress(o)
	if err != nil {
		return err
	}
	message := n.Message(pageOf(o.Notify.Link, n.Item))
	if agents.ChannelKind(n.Channel.Kind) == agents.Email {
		return s.mail(ctx, o, egress, n.Channel.Target, message)
	}
	secret, err := s.secret(ctx, n.Channel.Secret, n.Channel.Target)
	if err != nil {
		return err
	}
	nowMs, err := s.now(ctx)
	if err != nil {
		return err
	}
	return send.Webhook(ctx, guard{egress}, n.Channel.Target, []byte(secret), message, nowMs)
}

// codeSecret says that a secret could not be had in this process for whom it
// was to be shown to.
const codeSecret = "SECRET_UNKNOWN"

func (s sender) secret(ctx context.Context, reference, audience string) (string, error) {
	secret, err := s.secrets.Secret(ctx, credential.Use{Reference: reference, Audience: audience})
	if err != nil {
		return "", &notice.Failure{Code: codeSecret}
	}
	return secret.For(audience)
}

func (s sender) mail(ctx context.Context, o agents.Organisation, egress *tool.Egress, to string, message notice.Message) error {
	m := o.Notify.Mail
	if m == nil {
		return notice.ErrWithdrawn
	}
	server := send.Server{Address: m.Server, From: m.From, User: m.User}
	switch m.TLS {
	case agents.ImplicitTLS:
		server.TLS = send.ImplicitTLS
	case agents.NoTLS:
		if !internal(m.Server) {
			return &notice.Failure{Code: "TLS_NEEDED", Final: true}
		}
		server.TLS = send.NoTLS
	}
	if m.Secret != "" {
		password, err := s.secret(ctx, m.Secret, m.Server)
		if err != nil {
			return err
		}
		server.Password = password
	}
	return send.Mail(ctx, guard{egress}, server, to, message)
}

// internal reports whether an address is on this machine or its own network.
func internal(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	ip := net.ParseIP(host)
	return err == nil && ip != nil && (ip.IsLoopback() || ip.IsPrivate())
}

// pageOf returns the page of an item.
func pageOf(link, item string) string {
	page, err := url.Parse(link)
	if link == "" || err != nil {
		return ""
	}
	query := page.Query()
	query.Set("item", item)
	page.RawQuery = query.Encode()
	return page.String()
}

// guard is the guard of an organisation's tools, for notices.
type guard struct{ *tool.Egress }

// Refused reports whether the guard itself said no.
func (guard) Refused(err error) bool {
	var failure *tool.Failure
	return errors.As(err, &failure) && failure.Code == tool.FailedEgress
}
