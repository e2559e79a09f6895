package agents

import (
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"

	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/policy"
)

// Moment is a point in time, UTC milliseconds since 1970. As text it is a date,
// which means its beginning in UTC, or a time of RFC 3339.
type Moment int64

// MarshalText writes the moment as a time of RFC 3339.
func (m Moment) MarshalText() ([]byte, error) {
	return []byte(time.UnixMilli(int64(m)).UTC().Format(time.RFC3339Nano)), nil
}

// UnmarshalText reads "2026-12-21" or "2026-12-21T08:00:00Z".
func (m *Moment) UnmarshalText(text []byte) error {
	for _, layout := range []string{time.DateOnly, time.RFC3339Nano} {
		if parsed, err := time.Parse(layout, string(text)); err == nil {
			*m = Moment(parsed.UnixMilli())
			return nil
		}
	}
	return fmt.Errorf("%.40q is neither a date such as 2026-12-21 nor a time such as 2026-12-21T08:00:00Z", text)
}

// Deputy is who decides and answers for a person for a while, under every rule
// of who may decide.
type Deputy struct {
	Person string `json:"person"`           // principal id: for whom
	Deputy string `json:"deputy,omitempty"` // principal id; empty: nobody, where the person took back what the files say
	From   Moment `json:"from"`
	Until  Moment `json:"until"`           // no longer from then on
	SetMs  int64  `json:"setMs,omitempty"` // when the person said so, UTC ms; 0: the files did
}

// Escalation says when people are reminded of what waits for them, and who
// sees it besides when they do not react. It gives nobody a right to decide.
type Escalation struct {
	RemindAfter   []tool.Duration `json:"remindAfter,omitempty"`   // since it waits, ascending
	EscalateAfter tool.Duration   `json:"escalateAfter,omitempty"` // since it waits; 0: never
	To            string          `json:"to,omitempty"`            // ToManager, ToOwner or "role:NAME"
}

// Who sees what was escalated.
const (
	ToManager = "manager" // of each of those for whom it waits
	ToOwner   = "owner"   // of the department of each of those
)

// Notify says how people are told that something waits for them. Nobody is told
// what it is about.
type Notify struct {
	Link    string               `json:"link,omitempty"`    // page of the inbox: an http or https URL
	Mail    *MailServer          `json:"mail,omitempty"`    // without it no e-mail is sent
	Default []Channel            `json:"default,omitempty"` // of people who have none of their own
	People  map[string][]Channel `json:"people,omitempty"`  // by principal id
}

// ChannelKind says how somebody is told.
type ChannelKind string

// The kinds of channel.
const (
	Webhook ChannelKind = "WEBHOOK"
	Email   ChannelKind = "EMAIL"
)

// Channel is one way to tell a person.
type Channel struct {
	Kind    ChannelKind `json:"kind"`
	URL     string      `json:"url,omitempty"`     // of a WEBHOOK; its host and port are in the egress list
	Secret  string      `json:"secret,omitempty"`  // of a WEBHOOK: reference of the secret that signs, never the secret
	Address string      `json:"address,omitempty"` // of an EMAIL
}

// MailTLS says how the connection to a mail server is protected.
type MailTLS string

// How the connection to a mail server is protected.
const (
	StartTLS    MailTLS = "STARTTLS"
	ImplicitTLS MailTLS = "IMPLICIT"
	NoTLS       MailTLS = "NONE" // for a server on this machine or its own network, without a password
)

// MailServer is the server that takes e-mail.
type MailServer struct {
	Server string  `json:"server"` // "host:port", which is in the egress list
	From   string  `json:"from"`   // address
	User   string  `json:"user,omitempty"`
	Secret string  `json:"secret,omitempty"` // reference of the password, never the password
	TLS    MailTLS `json:"tls,omitempty"`    // empty: STARTTLS
}

// Channels returns how a person is told.
func (o Organisation) Channels(person string) []Channel {
	if own := o.Notify.People[person]; len(own) > 0 {
		return own
	}
	return o.Notify.Default
}

// StandIn returns who is named as a person's deputy, whether or not it is time.
func (o Organisation) StandIn(person string) (Deputy, bool) {
	d, found := find(o.Deputies, func(d Deputy) bool { return d.Person == person })
	return d, found && d.Deputy != ""
}

// StandIns returns the deputies as policy knows them, whether or not it is time.
func (o Organisation) StandIns() []policy.Deputy {
	var all []policy.Deputy
	for _, d := range o.Deputies {
		if d.Deputy != "" {
			all = append(all, policy.Deputy{Person: d.Person, Deputy: d.Deputy, FromMs: int64(d.From), UntilMs: int64(d.Until)})
		}
	}
	return all
}

// SetDeputy names who decides for a person from one moment to another (UTC ms).
// Only the person does that. Errors: ErrNotAPerson; Faults.
func SetDeputy(current Organisation, by, deputy string, fromMs, untilMs, nowMs int64) (Organisation, error) {
	if !current.isPerson(by) {
		return Organisation{}, ErrNotAPerson
	}
	set := Deputy{Person: by, Deputy: deputy, From: Moment(fromMs), Until: Moment(untilMs), SetMs: nowMs}
	if d, named := current.StandIn(by); named && d.Deputy == deputy && d.From == set.From && d.Until == set.Until {
		return current, nil
	}
	next := current
	next.Deputies = replaced(current.Deputies, set, func(d Deputy) string { return d.Person })
	return next.checked()
}

// ClearDeputy takes a person's deputy back, at once. Errors: ErrNotAPerson.
func ClearDeputy(current Organisation, by string, nowMs int64) (Organisation, error) {
	if !current.isPerson(by) {
		return Organisation{}, ErrNotAPerson
	}
	if _, named := current.StandIn(by); !named {
		return current, nil
	}
	next := current
	next.Deputies = replaced(current.Deputies, Deputy{Person: by, SetMs: nowMs}, func(d Deputy) string { return d.Person })
	return next.checked()
}

// keptDeputies are the deputies of loaded files, save where a person said
// something else since.
func keptDeputies(current, loaded Organisation) []Deputy {
	all := slices.Clone(loaded.Deputies)
	for _, d := range current.Deputies {
		if d.SetMs > 0 && loaded.isPerson(d.Person) && (d.Deputy == "" || loaded.isPerson(d.Deputy)) {
			all = replaced(all, d, func(d Deputy) string { return d.Person })
		}
	}
	return all
}

// Onlookers returns who sees what waits for a person once it is escalated,
// sorted: never the person.
func (o Organisation) Onlookers(person string) []string {
	p, found := o.Principal(person)
	if !found {
		return nil
	}
	var people []string
	department, _ := o.Department(p.Department)
	switch role, isRole := strings.CutPrefix(o.Escalation.To, "role:"); {
	case isRole:
		people = o.Directory().Holders(role)
	case o.Escalation.To == ToManager && p.Manager != "":
		people = []string{p.Manager}
	case o.Escalation.To != "":
		people = []string{department.Owner}
	}
	return ordered(slices.DeleteFunc(slices.Clone(people), func(id string) bool { return id == person || !o.isPerson(id) }))
}

func (v *validation) people() {
	o, file := v.o, organisationFile
	unique(v, file, "deputies[%d].person", o.Deputies, func(d Deputy) string { return d.Person })
	for i, d := range o.Deputies {
		at := fmt.Sprintf("deputies[%d].", i)
		v.person(file, at+"person", d.Person)
		if d.Deputy == "" && d.SetMs > 0 {
			continue
		}
		v.person(file, at+"deputy", d.Deputy)
		v.require(d.Deputy != d.Person, file, at+"deputy", "nobody is their own deputy")
		v.require(d.From < d.Until, file, at+"until", "must be after from")
	}
	v.escalation()
	v.notify()
}

func (v *validation) escalation() {
	e, file := v.o.Escalation, organisationFile
	last := tool.Duration(0)
	for i, after := range e.RemindAfter {
		v.require(after > last, file, fmt.Sprintf("escalation.remindAfter[%d]", i), "must be above 0 and above the one before it")
		last = max(last, after)
	}
	v.require(e.EscalateAfter >= 0, file, "escalation.escalateAfter", "must not be negative")
	role, isRole := strings.CutPrefix(e.To, "role:")
	switch {
	case isRole:
		v.require(slices.Contains(v.o.Roles, role), file, "escalation.to", "there is no role %q", role)
	case e.To != "" || e.EscalateAfter > 0:
		v.require(e.To == ToManager || e.To == ToOwner, file, "escalation.to", "must be %s, %s or role:NAME", ToManager, ToOwner)
	}
}

func (v *validation) notify() {
	n, file := v.o.Notify, organisationFile
	v.require(n.Link == "" || isPage(n.Link), file, "notify.link", "must be an http or https URL without credentials")
	v.channels("notify.default", n.Default)
	for id, channels := range n.People {
		v.person(file, "notify.people."+id, id)
		v.channels("notify.people."+id, channels)
	}
	m := n.Mail
	if m == nil {
		return
	}
	v.require(isAddress(m.Server), file, "notify.mail.server", "must be host:port")
	v.require(slices.Contains(v.o.Egress, m.Server), file, "notify.mail.server", "%s is not in the egress list", m.Server)
	v.require(isMailbox(m.From), file, "notify.mail.from", "must be an e-mail address")
	v.require((m.User == "") == (m.Secret == ""), file, "notify.mail.secret", "user and secret go together")
	v.require(slices.Contains([]MailTLS{"", StartTLS, ImplicitTLS, NoTLS}, m.TLS), file, "notify.mail.tls", "must be %s, %s or %s", StartTLS, ImplicitTLS, NoTLS)
	v.require(m.TLS != NoTLS || m.User == "", file, "notify.mail.tls", "a password is never sent without TLS")
}

func (v *validation) channels(path string, channels []Channel) {
	file := organisationFile
	for i, c := range channels {
		at := fmt.Sprintf("%s[%d].", path, i)
		switch c.Kind {
		case Webhook:
			v.require(isPage(c.URL), file, at+"url", "must be an http or https URL without credentials")
			v.require(slices.Contains(v.o.Egress, hostPort(c.URL)), file, at+"url", "%s is not in the egress list", hostPort(c.URL))
			v.require(c.Secret != "", file, at+"secret", "name the secret that signs")
			v.require(c.Address == "", file, at+"address", "is for %s", Email)
		case Email:
			v.require(isMailbox(c.Address), file, at+"address", "must be an e-mail address")
			v.require(c.URL == "" && c.Secret == "", file, at+"url", "url and secret are for %s", Webhook)
			v.require(v.o.Notify.Mail != nil, file, at+"kind", "notify.mail says no server that sends it")
		default:
			v.add(file, at+"kind", "must be %s or %s", Webhook, Email)
		}
	}
}

func isPage(address string) bool {
	parsed, err := url.Parse(address)
	return err == nil && (parsed.Scheme == "http" || parsed.Scheme == "https") && parsed.Host != "" && parsed.User == nil
}

func isMailbox(address string) bool {
	parsed, err := mail.ParseAddress(address)
	return err == nil && parsed.Address == address && !strings.ContainsAny(address, "\r\n")
}

// hostPort returns where a URL leads, "host:port".
func hostPort(address string) string {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Port() != "" || parsed.Host == "" {
		if parsed == nil {
			return ""
		}
		return parsed.Host
	}
	return net.JoinHostPort(parsed.Hostname(), map[string]string{"http": "80", "https": "443"}[parsed.Scheme])
}
