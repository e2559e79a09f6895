package graph

import (
	"net/http"
	"slices"
)

// preflightSeconds is how long a browser may remember what another origin may
// do.
const preflightSeconds = "600"

// admitOrigin answers for pages of other origins: one of the list may read
// answers and send a token, all others get no permission from us. It reports
// whether the request was a preflight, which is answered whole.
func (h *Handler) admitOrigin(w http.ResponseWriter, r *http.Request) (preflight bool) {
	origin := r.Header.Get("Origin")
	w.Header().Add("Vary", "Origin")
	if origin != "" && slices.Contains(h.config.Origins, origin) {
		w.Header().Set("Access-Control-Allow-Origin", origin)
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			w.Header().Set("Access-Control-Allow-Methods", http.MethodPost)
			w.Header().Set("Access-Control-Allow-Headers", "authorization, content-type")
			w.Header().Set("Access-Control-Max-Age", preflightSeconds)
			w.WriteHeader(http.StatusNoContent)
			return true
		}
	}
	return false
}
