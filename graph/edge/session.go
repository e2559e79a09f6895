package edge

import (
	"context"
	"errors"
	"strings"
	"time"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Caller is who asks: the verified credential, and the principal as the
// directory knows them now.
type Caller struct {
	Principal policy.Principal
	Identity  run.Identity
}

// session is a verified caller of one request or connection.
type session struct {
	caller  Caller
	expires time.Time
}

// authenticate turns the value of an Authorization header into a session; the
// principal is looked up in the directory, never taken from the token alone.
// Errors: ErrToken; else the directory cannot be asked.
func (h *Handler) authenticate(ctx context.Context, authorization string) (session, error) {
	scheme, token, found := strings.Cut(authorization, " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return session{}, ErrToken
	}
	said, err := h.config.Verifier.verify(token)
	if err != nil {
		return session{}, err
	}
	principal, err := h.config.People.Principal(ctx, said.organisation, said.identity.Principal)
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		return session{}, err // a good token is no worse for that
	}
	if err != nil || principal.Organisation != said.organisation || principal.ID != said.identity.Principal || principal.Kind == policy.Agent {
		return session{}, ErrToken // an agent acts in runs and asks for nothing here
	}
	return session{caller: Caller{Principal: principal, Identity: said.identity}, expires: said.expires}, nil
}

type sessionKey struct{}

func withSession(ctx context.Context, s session) context.Context {
	return context.WithValue(ctx, sessionKey{}, s)
}

// CallerOf returns who asks, within a request that was let in. Errors:
// ErrUnauthenticated.
func CallerOf(ctx context.Context) (Caller, error) {
	s, ok := ctx.Value(sessionKey{}).(session)
	if !ok {
		return Caller{}, ErrUnauthenticated
	}
	return s.caller, nil
}
