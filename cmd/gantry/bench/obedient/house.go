package obedient

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/cmd/gantry/bench/obedient/world"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/cmd/gantry/wire"
)

//go:embed organisation
var files embed.FS

// unnamed stands in the files for the name of the case.
const unnamed = "unnamed"

// house is one process with its database and its outside. Each case has an
// organisation of its own in it, so that no case can learn of another.
type house struct {
	folder   string
	outside  *world.Outside
	served   *http.Server
	base     agents.Organisation
	platform *wire.Platform
	http     *http.Client

	mu    sync.Mutex
	roles map[string]*role // by the name of the case
}

func open(ctx context.Context, parent string) (h *house, err error) {
	h = &house{outside: &world.Outside{}, http: &http.Client{}, roles: map[string]*role{}}
	if h.folder, err = os.MkdirTemp(parent, "gantry-obedient-"); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	if err := h.build(ctx); err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

func (h *house) build(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("bench: the outside: %w", err)
	}
	h.served = &http.Server{Handler: h.outside, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = h.served.Serve(listener) }() // ends with Close
	folder, err := fs.Sub(files, "organisation")
	if err != nil {
		return err
	}
	address := listener.Addr().String()
	if h.base, err = agents.LoadDir(folder, agents.LoadOptions{Endpoints: map[string]string{"world": "http://" + address + "/" + unnamed},
		Egress: []string{address}}); err != nil {
		return err
	}
	h.platform, err = wire.Open(ctx, wire.Config{Folder: filepath.Join(h.folder, "keys"), Database: "sqlite:" + filepath.Join(h.folder, "gantry.db"),
		Listen: "127.0.0.1:0", Work: true, Dev: true, Log: slog.New(slog.DiscardHandler),
		Provider: func(entry agents.Model) (model.Provider, error) { return h.provider(entry.Model) }})
	return err
}

func (h *house) close() error {
	var faults []error
	if h.platform != nil {
		faults = append(faults, h.platform.Close())
	}
	if h.served != nil {
		faults = append(faults, h.served.Close())
	}
	h.http.CloseIdleConnections()
	return errors.Join(append(faults, os.RemoveAll(h.folder))...)
}

// provider is the obedient model of a case.
func (h *house) provider(name string) (model.Provider, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	part, known := h.roles[name]
	if !known {
		return nil, fmt.Errorf("bench: no case %s", name)
	}
	return player{part}, nil
}

// found makes an organisation for a case and puts it in force.
func (h *house) found(ctx context.Context, name string, part *role, w *world.World) error {
	h.mu.Lock()
	h.roles[name] = part
	h.mu.Unlock()
	h.outside.Put(name, w)
	_, _, err := h.platform.Kits.Apply(ctx, named(h.base, name))
	return err
}

// named is the organisation under the name of a case, with an outside of its own.
func named(o agents.Organisation, name string) agents.Organisation {
	renamed := func(text []byte) []byte {
		return bytes.ReplaceAll(text, []byte("/"+unnamed+"/"), []byte("/"+name+"/"))
	}
	o.Name = name
	o.Endpoints = maps.Clone(o.Endpoints)
	for key, endpoint := range o.Endpoints {
		o.Endpoints[key] = string(renamed([]byte(endpoint + "/")))
	}
	o.Principals, o.Models, o.Tools, o.Servers = slices.Clone(o.Principals), slices.Clone(o.Models), slices.Clone(o.Tools), slices.Clone(o.Servers)
	for i := range o.Principals {
		o.Principals[i].Organisation = name
	}
	for i := range o.Models {
		o.Models[i].Model = name
	}
	for i := range o.Tools {
		o.Tools[i].Server = renamed(o.Tools[i].Server)
	}
	for i := range o.Servers {
		o.Servers[i].URL = string(renamed([]byte(o.Servers[i].URL)))
	}
	return o
}

// as speaks for somebody of a case's organisation.
func (h *house) as(organisation, principal string) (*client.Client, error) {
	token, err := h.platform.Keys.Token(organisation, principal, h.platform.Config.Issuer, rand.Text(), time.Now().Add(-time.Minute), time.Hour)
	if err != nil {
		return nil, err
	}
	return client.New(client.Config{URL: "http://" + h.platform.Address(), Token: token, HTTP: h.http})
}
