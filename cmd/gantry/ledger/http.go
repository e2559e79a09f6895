package ledger

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
)

const maxBody = 16 << 10 // bytes

// Handler returns the HTTP API:
//
//	POST /v1/adjustments              book; header Idempotency-Key; 201 when new, 200 when it was there
//	GET  /v1/adjustments?key=…        {"entries": […]} of the caller's own key
//	GET  /v1/adjustments?invoice=…    {"entries": […]}, oldest first
//	GET  /v1/adjustments/{id}         one entry
//	GET  /v1/count                    {"count": n}
//
// Every request needs a bearer token. The header X-Acting-Chain names, escaped
// and joined by commas, for whom the caller acts. Errors are
// {"error": {"code", "message"}}.
func (l *Ledger) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/adjustments", l.asClient(l.postAdjustment))
	mux.HandleFunc("GET /v1/adjustments", l.asClient(l.getAdjustments))
	mux.HandleFunc("GET /v1/adjustments/{id}", l.asClient(l.getAdjustment))
	mux.HandleFunc("GET /v1/count", l.asClient(l.getCount))
	return mux
}

type clientHandler func(w http.ResponseWriter, r *http.Request, client string)

// asClient finds out who calls.
func (l *Ledger) asClient(handle clientHandler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token, isBearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		client, known := l.clients[sha256.Sum256([]byte(token))]
		if !isBearer || !known {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, "UNAUTHENTICATED", "send a valid bearer token")
			return
		}
		handle(w, r, client)
	}
}

func (l *Ledger) postAdjustment(w http.ResponseWriter, r *http.Request, client string) {
	key := r.Header.Get("Idempotency-Key")
	if !keyPattern.MatchString(key) {
		refuse(w, http.StatusBadRequest, "KEY_INVALID", "send the header Idempotency-Key with 1 to 200 printable ASCII characters")
		return
	}
	chain, ok := readChain(r.Header.Get("X-Acting-Chain"))
	if !ok {
		refuse(w, http.StatusBadRequest, "CHAIN_INVALID", "send X-Acting-Chain as escaped ids joined by commas")
		return
	}
	var adjustment Adjustment
	if err := readBody(w, r, &adjustment); err != nil {
		refuse(w, http.StatusBadRequest, "BODY_INVALID", "send one JSON object with invoice, amountCents (integer), currency and reason, and nothing else")
		return
	}
	if faults := adjustment.faults(); len(faults) > 0 {
		refuse(w, http.StatusUnprocessableEntity, "ADJUSTMENT_INVALID", strings.Join(faults, "; "))
		return
	}
	entry, booked, err := l.book(r.Context(), Actor{Client: client, Chain: chain}, key, adjustment)
	if errors.Is(err, errKeyReused) {
		refuse(w, http.StatusConflict, "KEY_REUSED", "this Idempotency-Key was used for another adjustment")
		return
	}
	if err != nil {
		refuse(w, http.StatusInternalServerError, "INTERNAL", "the ledger could not book; try again with the same key")
		return
	}
	if l.beforeReply != nil {
		l.beforeReply(r)
	}
	status := http.StatusOK
	if booked {
		status = http.StatusCreated
	}
	answer(w, status, entry)
}

func (l *Ledger) getAdjustments(w http.ResponseWriter, r *http.Request, client string) {
	query := r.URL.Query()
	if query.Has("key") == query.Has("invoice") {
		refuse(w, http.StatusBadRequest, "QUERY_INVALID", "ask by either key or invoice")
		return
	}
	var found []Entry
	var err error
	if query.Has("key") {
		found, err = l.byKey(r.Context(), client, query.Get("key"))
	} else {
		found, err = l.byInvoice(r.Context(), query.Get("invoice"))
	}
	if err != nil {
		refuse(w, http.StatusInternalServerError, "INTERNAL", "the ledger could not be read")
		return
	}
	answer(w, http.StatusOK, map[string]any{"entries": found})
}

func (l *Ledger) getAdjustment(w http.ResponseWriter, r *http.Request, _ string) {
	entry, err := l.byID(r.Context(), r.PathValue("id"))
	switch {
	case errors.Is(err, errNoEntry):
		refuse(w, http.StatusNotFound, "NOT_FOUND", "there is no such adjustment")
	case err != nil:
		refuse(w, http.StatusInternalServerError, "INTERNAL", "the ledger could not be read")
	default:
		answer(w, http.StatusOK, entry)
	}
}

func (l *Ledger) getCount(w http.ResponseWriter, r *http.Request, _ string) {
	n, err := l.count(r.Context())
	if err != nil {
		refuse(w, http.StatusInternalServerError, "INTERNAL", "the ledger could not be read")
		return
	}
	answer(w, http.StatusOK, map[string]int64{"count": n})
}

func readBody(w http.ResponseWriter, r *http.Request, into *Adjustment) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one value")
	}
	return nil
}

// readChain reads an acting chain. No header is an empty chain.
func readChain(header string) ([]string, bool) {
	chain := []string{}
	if header == "" {
		return chain, true
	}
	if len(header) > 4<<10 {
		return nil, false
	}
	for part := range strings.SplitSeq(header, ",") {
		id, err := url.QueryUnescape(part)
		if err != nil || id == "" {
			return nil, false
		}
		chain = append(chain, id)
	}
	return chain, true
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	answer(w, status, map[string]any{"error": map[string]string{"code": code, "message": message}})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a caller that has gone hears nothing
}
