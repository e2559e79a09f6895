package tool

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Destination is one place outside that an organisation's tools may reach.
type Destination struct {
	Host     string `json:"host"` // exact name in ASCII, or an address
	Port     int    `json:"port"`
	Internal bool   `json:"internal,omitempty"` // may be a private or loopback address, and speak plain HTTP
}

// Resolver finds the addresses of a host. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Dial opens a connection to an address and port, already checked.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Egress is the guard through which HTTP tools reach outside. A connection
// goes to a listed host and port only, and to the very address that was
// checked: the name is not resolved a second time.
type Egress struct {
	allowed  map[string]Destination // by host:port
	resolver Resolver
	dial     Dial
}

// NewEgress returns a guard that lets through exactly the given destinations.
// Nil for resolver or dial means those of package net.
func NewEgress(allowed []Destination, resolver Resolver, dial Dial) (*Egress, error) {
	e := &Egress{allowed: make(map[string]Destination, len(allowed)), resolver: resolver, dial: dial}
	if e.resolver == nil {
		e.resolver = net.DefaultResolver
	}
	if e.dial == nil {
		e.dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	}
	var faults []error
	for _, d := range allowed {
		host, ok := plainHost(d.Host)
		if !ok || d.Port < 1 || d.Port > 65535 {
			faults = append(faults, fmt.Errorf("egress: %q port %d is no exact host and port", d.Host, d.Port))
			continue
		}
		e.allowed[net.JoinHostPort(host, strconv.Itoa(d.Port))] = d
	}
	return e, errors.Join(faults...)
}

// CheckURL reports as a *Failure that a URL leads outside of what is allowed,
// as far as it can be told before the host is resolved.
func (e *Egress) CheckURL(u *url.URL) error {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	d, ok := e.find(u.Hostname(), port)
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return denied("only http and https are spoken")
	case u.User != nil:
		return denied("a URL must not carry credentials")
	case !ok:
		return denied("the host and port are not on the list")
	case u.Scheme == "http" && !d.Internal:
		return denied("plain http is for internal destinations only")
	}
	return nil
}

func (e *Egress) find(host, port string) (Destination, bool) {
	plain, ok := plainHost(host)
	if !ok {
		return Destination{}, false
	}
	d, ok := e.allowed[net.JoinHostPort(plain, port)]
	return d, ok
}

// DialContext connects to a listed host and port. It resolves the host, checks
// every address it gets and dials one of those. Refusals are *Failure.
func (e *Egress) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, denied("no host and port")
	}
	d, ok := e.find(host, port)
	if !ok {
		return nil, denied("the host and port are not on the list")
	}
	addresses, err := e.addresses(ctx, host)
	if err != nil {
		return nil, &Failure{Code: FailedUnreachable, Detail: "the host could not be resolved"}
	}
	// One bad address spoils all: a name that leads inside and outside at once
	// is set up to be asked twice.
	for _, a := range addresses {
		if !reachable(a, d.Internal) {
			return nil, denied("the host leads to an address that is not allowed")
		}
	}
	for _, a := range addresses {
		var conn net.Conn
		if conn, err = e.dial(ctx, network, net.JoinHostPort(a.Unmap().String(), port)); err == nil {
			return conn, nil
		}
	}
	return nil, &Failure{Code: FailedUnreachable, Detail: "no connection to the host"}
}

func (e *Egress) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if literal, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{literal}, nil
	}
	found, err := e.resolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(found) == 0 {
		err = errors.New("no address")
	}
	return found, err
}

// Transport returns a transport that uses the guard and nothing of the
// process's environment. It keeps no connection: a request on a kept one may
// be sent twice by the library, which our records would not show.
func (e *Egress) Transport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            e.DialContext,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
		TLSHandshakeTimeout:    10 * time.Second,
		Protocols:              protocols,
	}
}

func denied(why string) *Failure { return &Failure{Code: FailedEgress, Detail: why} }

var (
	hostName     = regexp.MustCompile(`^([a-z0-9_]([a-z0-9_-]*[a-z0-9])?\.)*[a-z0-9_]([a-z0-9_-]*[a-z0-9])?$`)
	numericLabel = regexp.MustCompile(`^(0x[0-9a-f]*|[0-9]+)$`)
)

// plainHost returns the one form of a host name or address. Names whose last
// label is a number are addresses to some resolvers, so they have none.
func plainHost(host string) (string, bool) {
	if address, err := netip.ParseAddr(host); err == nil {
		return address.Unmap().String(), address.Zone() == ""
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	labels := strings.Split(host, ".")
	return host, hostName.MatchString(host) && !numericLabel.MatchString(labels[len(labels)-1])
}

// special are ranges that are not the public internet but count as global
// unicast, or that carry an IPv4 address inside an IPv6 one.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("::/96"),
	netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("100::/64"),
	netip.MustParsePrefix("2001::/23"),
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("fec0::/10"),
}

// reachable reports whether an address may be dialled. Link-local addresses,
// where clouds keep their credentials, never are.
func reachable(address netip.Addr, internal bool) bool {
	if address.Zone() != "" {
		return false
	}
	address = address.Unmap()
	if internal && (address.IsLoopback() || address.IsPrivate()) {
		return true
	}
	if !address.IsGlobalUnicast() || address.IsPrivate() || address.IsLoopback() {
		return false
	}
	for _, prefix := range special {
		if prefix.Contains(address) {
			return false
		}
	}
	return true
}
