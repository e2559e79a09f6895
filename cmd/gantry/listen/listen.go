// Package listen serves what the samples have outside of Gantry, until their
// context ends.
package listen

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/sourcegraph/conc"
)

// Serve answers requests until the context ends, and then finishes what it has
// begun, for 10 seconds at most.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 32 << 10,
	}
	ctx, stop := context.WithCancel(ctx)
	var stopped error
	var waiting conc.WaitGroup
	waiting.Go(func() {
		<-ctx.Done()
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		stopped = server.Shutdown(limit)
	})
	err := server.Serve(listener)
	stop()
	waiting.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, stopped)
}
