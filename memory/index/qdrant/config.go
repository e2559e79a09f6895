// Package qdrant is the index in a Qdrant server. The server compares a question
// with everything that its reader may see, and with nothing else: it is asked for
// exact answers only, and who may see what stands in conditions that must hold.
// It gets opaque ids, vectors and label sets, and no text.
package qdrant

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Key is a secret that no output shows.
type Key string

// String stands in place of the key.
func (k Key) String() string {
	if k == "" {
		return "(no key)"
	}
	return "(key)"
}

// GoString stands in place of the key.
func (k Key) GoString() string { return k.String() }

// LogValue stands in place of the key.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText stands in place of the key.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Config says where the server is and how long it may take.
type Config struct {
	// URL is where the server speaks gRPC: "https://qdrant.example.org:6334". http is
	// for loopback, or without APIKey.
	URL    string
	APIKey Key
	// Prefix begins the names of all collections; "gantry-memory" when empty. Two
	// installations at one server need two.
	Prefix string
	// Timeout bounds each call with everything that is tried again in it; 2 s when 0.
	// Making and removing collections may take five times as long.
	Timeout time.Duration
	// RestAfter is how many failures among the last twice as many attempts make the
	// server be left alone; 5 when 0.
	RestAfter uint
	// Rest is how long it is left alone before one call tries it again; 5 s when 0.
	Rest time.Duration
	// Replicas is how many copies of each shard a cluster keeps; 1 when 0. A change
	// is done when all of them have it.
	Replicas uint32
	// Logger is told the server's version, once; slog.Default when nil.
	Logger *slog.Logger `json:"-"`
	// Dial connects in place of TCP where it is not nil.
	Dial func(ctx context.Context, address string) (net.Conn, error) `json:"-"`
}

// address is a parsed URL.
type address struct {
	host string
	port int
	tls  bool
}

// Validate names every fault. It quotes no URL, because keys are put there too.
func (c Config) Validate() error {
	_, err := c.parse()
	if strings.ContainsFunc(c.Prefix, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
	}) {
		err = errors.Join(err, errors.New("the prefix of Qdrant's collections has more than letters, digits and hyphens"))
	}
	if c.Timeout < 0 || c.Rest < 0 {
		err = errors.Join(err, errors.New("a duration of the Qdrant index is negative"))
	}
	return err
}

func (c Config) parse() (address, error) {
	parsed, err := url.Parse(c.URL)
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return address{}, errors.New("the URL of Qdrant is not http://host:port or https://host:port")
	}
	if parsed.User != nil || parsed.RawQuery != "" || parsed.Path != "" && parsed.Path != "/" {
		return address{}, errors.New("the URL of Qdrant has more than a host and a port; the key has a setting of its own")
	}
	to := address{host: parsed.Hostname(), port: 6334, tls: parsed.Scheme == "https"}
	if parsed.Port() != "" {
		if to.port, err = strconv.Atoi(parsed.Port()); err != nil || to.port < 1 || to.port > 65_535 {
			return address{}, errors.New("the port of the URL of Qdrant is not 1 to 65535")
		}
	}
	if c.APIKey != "" && !to.tls && !loopback(to.host) {
		return address{}, errors.New("the key of Qdrant would cross the network for all to read: use https")
	}
	return to, nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

func (c Config) withDefaults() Config {
	if c.Prefix == "" {
		c.Prefix = "gantry-memory"
	}
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Second
	}
	if c.RestAfter == 0 {
		c.RestAfter = 5
	}
	if c.Rest == 0 {
		c.Rest = 5 * time.Second
	}
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}
