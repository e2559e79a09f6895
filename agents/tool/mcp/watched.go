package mcp

import (
	"context"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxBehind is how many messages of a server's own are read while something
// that is written to it is not taken.
const maxBehind = 10_000

// watched is a transport to a process that gives it up where it takes nothing
// any more. The library would wait for it without end, and keep what it says
// meanwhile without bound.
type watched struct {
	sdk.Transport
	over atomic.Bool // its connection was closed
}

// Connect begins the one connection.
func (w *watched) Connect(ctx context.Context) (sdk.Connection, error) {
	connection, err := w.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &watchedConnection{Connection: connection, over: &w.over}, nil
}

type watchedConnection struct {
	sdk.Connection
	over    *atomic.Bool
	writing atomic.Int64 // messages that are being written
	behind  atomic.Int64 // messages of the server's own since one was taken
}

// Close closes the connection.
func (c *watchedConnection) Close() error {
	c.over.Store(true)
	return c.Connection.Close()
}

// Write writes a message. If its context ends in the midst of that, so does the
// connection: nothing could follow half a message.
func (c *watchedConnection) Write(ctx context.Context, message jsonrpc.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.writing.Add(1)
	defer c.writing.Add(-1)
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	err := c.Connection.Write(ctx, message)
	if err == nil {
		c.behind.Store(0)
	}
	return err
}

// Read reads the next message. Whatever cannot be read on is closed at once.
func (c *watchedConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	message, err := c.Connection.Read(ctx)
	if _, own := message.(*jsonrpc.Request); err == nil && own && c.writing.Load() > 0 && c.behind.Add(1) > maxBehind {
		err = errFlood
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return message, nil
}
