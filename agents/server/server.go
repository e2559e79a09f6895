// Package server says what an organisation keeps of the MCP servers that it
// uses: how each is reached, who it must be, and what a tool of it was when
// somebody answered for it.
package server

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"

	"gantry.dev/orchestrator/canon"
)

// The transports of a server.
const (
	Stdio = "stdio" // a process of our own, spoken to over its standard streams
	HTTP  = "http"  // streamable HTTP
)

// SandboxNone is the sandbox of a server that runs as the platform itself.
const SandboxNone = "none"

// Server is one MCP server as its owner registered it.
type Server struct {
	Name      string            `json:"name"` // first part of the names of its tools
	Transport string            `json:"transport"`
	Command   string            `json:"command,omitempty"` // absolute path, for stdio
	Args      []string          `json:"args,omitempty"`
	Env       map[string]string `json:"env,omitempty"`     // variable to credential reference; a process gets no other variable
	URL       string            `json:"url,omitempty"`     // for http
	Auth      *Auth             `json:"auth,omitempty"`    // for http
	Sandbox   string            `json:"sandbox,omitempty"` // for stdio: "none", or empty for what the machine offers
	Network   []string          `json:"network,omitempty"` // "host:port" that a sandboxed process may reach
	Read      []string          `json:"read,omitempty"`    // absolute paths that a sandboxed process may read besides
	Owner     string            `json:"owner"`             // principal id: answers for it
	Contact   string            `json:"contact"`           // principal id: told of incidents
	Identity  Identity          `json:"identity,omitzero"`
}

// Auth says how a server over HTTP is shown who calls. Every request gets its
// token anew, for this server alone; where that comes from is the credential's
// matter, whatever the server says of it.
type Auth struct {
	Credential string `json:"credential"`       // reference, never the secret
	Header     string `json:"header,omitempty"` // that carries it; empty: Authorization, as a bearer token
	// Personal says that the token is for who acts: each person has a session of
	// their own.
	Personal bool `json:"personal,omitempty"`
}

// Identity pins who a server is. What is empty is not pinned.
type Identity struct {
	Files map[string]string `json:"files,omitempty"` // absolute path to SHA-256 in hex: the command, and the scripts that it runs
	Keys  []string          `json:"keys,omitempty"`  // SHA-256 in hex of the TLS public keys (SPKI) that it may have
}

// Digest names the server as it is configured. Its errors are those of
// canon.Marshal, which no valid server gives.
func (s Server) Digest() (string, error) { return canon.DigestOf(s) }

// Origin is whom a token for the server is for: "scheme://host:port".
func (s Server) Origin() string {
	u, err := url.Parse(s.URL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// Address is the host and port that a server over HTTP is reached at, or "".
func (s Server) Address() string {
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" {
		return ""
	}
	if u.Port() != "" {
		return u.Host
	}
	return u.Host + map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
}

var (
	plainName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	variable  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	header    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*$`)
	hash      = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Fault is what is wrong with one part of a server.
type Fault struct{ Path, Sentence string }

// Faults returns everything that is wrong with the server itself. Whether its
// people and destinations exist is not looked at.
func (s Server) Faults() (faults []Fault) {
	require := func(ok bool, path, sentence string) {
		if !ok {
			faults = append(faults, Fault{path, sentence})
		}
	}
	require(plainName.MatchString(s.Name) && len(s.Name) <= 64, "name", "must be lower-case letters, digits and dashes, and begin with a letter")
	switch s.Transport {
	case Stdio:
		require(path.IsAbs(s.Command), "command", "must be the absolute path of the program")
		require(s.URL == "" && s.Auth == nil && len(s.Identity.Keys) == 0, "transport", "a stdio server has no url, auth or identity.keys")
	case HTTP:
		u, err := url.Parse(s.URL)
		require(err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil && u.Fragment == "", "url",
			"must be an http or https URL without user and fragment")
		require(s.Command == "" && len(s.Args)+len(s.Env)+len(s.Network)+len(s.Read)+len(s.Identity.Files) == 0 && s.Sandbox == "", "transport",
			"an http server has no command, args, env, network, read, sandbox or identity.files")
	default:
		require(false, "transport", "must be stdio or http")
	}
	for name, reference := range s.Env {
		require(variable.MatchString(name), "env", "the name of a variable is letters, digits and _")
		require(reference != "", "env", "a variable holds a credential reference")
	}
	require(s.Sandbox == "" || s.Sandbox == SandboxNone || plainName.MatchString(s.Sandbox), "sandbox", "must name a sandbox, none or nothing")
	for _, file := range s.Read {
		require(path.IsAbs(file) && path.Clean(file) == file && file != "/", "read", "must be absolute paths, and not the root")
	}
	for file, sum := range s.Identity.Files {
		require(path.IsAbs(file) && hash.MatchString(sum), "identity.files", "must be absolute paths with their SHA-256 in hex")
	}
	for _, key := range s.Identity.Keys {
		require(hash.MatchString(key), "identity.keys", "must be SHA-256 of public keys in hex")
	}
	require(len(s.Identity.Keys) == 0 || strings.HasPrefix(s.URL, "https:"), "identity.keys", "only https has a key")
	return append(faults, s.Auth.faults()...)
}

func (a *Auth) faults() (faults []Fault) {
	if a == nil {
		return nil
	}
	if a.Credential == "" {
		faults = append(faults, Fault{"auth.credential", "a credential reference is needed"})
	}
	if a.Header != "" && !header.MatchString(a.Header) {
		faults = append(faults, Fault{"auth.header", "must be the name of a header"})
	}
	return faults
}

// ErrAnother means that who answers is not whom the identity pins.
var ErrAnother = errors.New("the server is not the one that was registered")

// Another says by which part a server is not the one that was registered.
func Another(part string) error { return fmt.Errorf("%w: %s", ErrAnother, part) }
