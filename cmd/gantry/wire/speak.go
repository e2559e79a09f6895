package wire

import (
	"net/http"
	"runtime/debug"

	"gantry.dev/graph"
	"gantry.dev/graph/a2a"
	"gantry.dev/graph/mcp"
)

// speak serves the other protocols, all through the door of the interface.
func (p *Platform) speak(mux *http.ServeMux, handler *graph.Handler) {
	mux.Handle(mcp.Path, mcp.NewHandler(mcp.Config{Schema: handler, Version: version()}, p.Config.Public, handler.Admit))
	mux.Handle(a2a.Prefix, a2a.NewHandler(a2a.Config{Schema: handler, Admit: handler.Admit, Public: p.Config.Public, Version: version()}))
	metadata := mcp.NewMetadata(p.Config.Public, p.Config.Issuers)
	mux.Handle(mcp.MetadataPath, metadata)
	mux.Handle("/.well-known/oauth-protected-resource", metadata)
}

// version is the module's, as far as the build knows it.
func version() string {
	if build, known := debug.ReadBuildInfo(); known && build.Main.Version != "" {
		return build.Main.Version
	}
	return "unknown"
}
