package tool_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/tool"
)

// names is a resolver that gives the next list of addresses at every question.
type names map[string][][]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	lists := n[host]
	if len(lists) == 0 {
		return nil, errors.New("no such host")
	}
	if len(lists) > 1 {
		n[host] = lists[1:]
	}
	var found []netip.Addr
	for _, a := range lists[0] {
		found = append(found, netip.MustParseAddr(a))
	}
	return found, nil
}

var errDialled = errors.New("dialled")

// dials records where a connection would go.
func dials(to *[]string) tool.Dial {
	return func(_ context.Context, _, address string) (net.Conn, error) {
		*to = append(*to, address)
		return nil, errDialled
	}
}

func TestFault_E17_BlockedAtDial(t *testing.T) {
	for name, addresses := range map[string][]string{
		"loopback":                {"127.0.0.1"},
		"loopback 6":              {"::1"},
		"mapped loopback":         {"::ffff:127.0.0.1"},
		"mapped private":          {"::ffff:10.0.0.1"},
		"metadata":                {"169.254.169.254"},
		"mapped metadata":         {"::ffff:169.254.169.254"},
		"private 10":              {"10.1.2.3"},
		"private 172":             {"172.16.0.1"},
		"private 192":             {"192.168.1.1"},
		"unique local":            {"fd00::1"},
		"link local 6":            {"fe80::1"},
		"with a zone":             {"fe80::1%eth0"},
		"site local":              {"fec0::1"},
		"unspecified":             {"0.0.0.0"},
		"unspecified 6":           {"::"},
		"this network":            {"0.1.2.3"},
		"carrier NAT":             {"100.64.0.1"},
		"multicast":               {"224.0.0.1"},
		"broadcast":               {"255.255.255.255"},
		"reserved":                {"250.0.0.1"},
		"documentation":           {"192.0.2.1"},
		"benchmarking":            {"198.18.0.1"},
		"compatible":              {"::7f00:1"},
		"NAT64 of loopback":       {"64:ff9b::7f00:1"},
		"6to4 of loopback":        {"2002:7f00:1::"},
		"Teredo":                  {"2001:0:7f00:1::"},
		"one good and one inside": {"93.184.216.34", "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			var dialled []string
			egress, err := tool.NewEgress([]tool.Destination{{Host: "api.example.org", Port: 443}}, names{"api.example.org": {addresses}}, dials(&dialled))
			require.NoError(t, err)
			_, err = egress.DialContext(t.Context(), "tcp", "api.example.org:443")
			require.Equal(t, tool.FailedEgress, failureOf(t, err).Code)
			require.False(t, failureOf(t, err).Uncertain)
			require.Empty(t, dialled)
		})
	}
}

func TestFault_E17_RebindingDialsTheCheckedAddress(t *testing.T) {
	var dialled []string
	resolver := names{"api.example.org": {{"93.184.216.34"}, {"127.0.0.1"}}}
	egress, err := tool.NewEgress([]tool.Destination{{Host: "API.example.org.", Port: 443}}, resolver, dials(&dialled))
	require.NoError(t, err)
	_, err = egress.DialContext(t.Context(), "tcp", "api.example.org:443")
	require.Equal(t, tool.FailedUnreachable, failureOf(t, err).Code)
	require.Equal(t, []string{"93.184.216.34:443"}, dialled, "the address, not the name")

	_, err = egress.DialContext(t.Context(), "tcp", "api.example.org:443")
	require.Equal(t, tool.FailedEgress, failureOf(t, err).Code, "every connection is checked anew")
	require.Len(t, dialled, 1)
}

func TestFault_E17_OnlyListedDestinations(t *testing.T) {
	var dialled []string
	known := names{}
	hosts := []string{
		"evil.example.org:443", "api.example.org:80", "api.example.org.evil.org:443", "2130706433:443", "0x7f000001:443", "0177.0.0.1:443",
		"127.1:443", "127.0.0.1:443", "[::1]:443", "[::ffff:127.0.0.1]:443", "localhost:443", "аpi.example.org:443", "api.example.org\x00:443", ":443", "api.example.org",
	}
	for _, address := range hosts {
		if host, _, err := net.SplitHostPort(address); err == nil {
			known[host] = [][]string{{"93.184.216.34"}}
		}
	}
	egress, err := tool.NewEgress([]tool.Destination{{Host: "api.example.org", Port: 443}}, known, dials(&dialled))
	require.NoError(t, err)
	for _, address := range hosts {
		_, err := egress.DialContext(t.Context(), "tcp", address)
		require.Equal(t, tool.FailedEgress, failureOf(t, err).Code, address)
	}
	require.Empty(t, dialled)
}

func TestFault_E17_InternalDestinationsAreExact(t *testing.T) {
	var dialled []string
	resolver := names{"ledger.internal": {{"10.0.0.7"}}, "meta.internal": {{"169.254.169.254"}}}
	egress, err := tool.NewEgress([]tool.Destination{
		{Host: "ledger.internal", Port: 8080, Internal: true},
		{Host: "meta.internal", Port: 80, Internal: true},
		{Host: "127.0.0.1", Port: 9000, Internal: true},
		{Host: "::ffff:127.0.0.2", Port: 9000, Internal: true},
	}, resolver, dials(&dialled))
	require.NoError(t, err)
	for address, code := range map[string]string{
		"ledger.internal:8080": tool.FailedUnreachable, // let through to our dial, which connects to nothing
		"127.0.0.1:9000":       tool.FailedUnreachable,
		"127.0.0.2:9000":       tool.FailedUnreachable,
		"ledger.internal:8081": tool.FailedEgress,
		"10.0.0.7:8080":        tool.FailedEgress,
		"127.0.0.1:9001":       tool.FailedEgress,
		"meta.internal:80":     tool.FailedEgress, // never, even as internal
	} {
		_, err := egress.DialContext(t.Context(), "tcp", address)
		require.Equal(t, code, failureOf(t, err).Code, address)
	}
	require.ElementsMatch(t, []string{"10.0.0.7:8080", "127.0.0.1:9000", "127.0.0.2:9000"}, dialled)
}

func TestEgressChecksURLs(t *testing.T) {
	egress, err := tool.NewEgress([]tool.Destination{
		{Host: "api.example.org", Port: 443}, {Host: "api.example.org", Port: 80}, {Host: "ledger.internal", Port: 80, Internal: true},
	}, names{}, nil)
	require.NoError(t, err)
	for text, ok := range map[string]bool{
		"https://api.example.org/x":      true,
		"https://API.example.org:443/x":  true,
		"http://ledger.internal/x":       true,
		"http://api.example.org/x":       false, // plain text to the outside
		"https://ledger.internal/x":      false,
		"https://user@api.example.org/x": false,
		"https://api.example.org:444/x":  false,
		"ftp://api.example.org/x":        false,
		"https:///x":                     false,
		"/x":                             false,
	} {
		u, err := url.Parse(text)
		require.NoError(t, err)
		require.Equal(t, ok, egress.CheckURL(u) == nil, text)
	}
}

func TestNewEgressRefusesVagueDestinations(t *testing.T) {
	for _, d := range []tool.Destination{
		{Host: "*.example.org", Port: 443}, {Host: "", Port: 443}, {Host: "example.org", Port: 0}, {Host: "2130706433", Port: 80},
		{Host: "0x7f.1", Port: 80}, {Host: "exämple.org", Port: 443}, {Host: "https://example.org", Port: 443}, {Host: "fe80::1%eth0", Port: 1},
	} {
		_, err := tool.NewEgress([]tool.Destination{d}, nil, nil)
		require.Error(t, err, d.Host)
	}
}
