package qdrant

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/failsafe-go/failsafe-go"
	"github.com/google/uuid"
	"github.com/qdrant/go-client/qdrant"
	"google.golang.org/grpc"

	"gantry.dev/memory/index"
)

// mostReceived bounds an answer, in bytes: as many hits as are ever asked for fit.
const mostReceived = 64 << 20

// Indexes are the indexes in one server. Each vector space is an alias, and the
// collection that it stands for; the alias is what everybody uses.
type Indexes struct {
	config   Config
	client   *qdrant.Client
	executor failsafe.Executor[any]
	greeted  sync.Once
}

var (
	_ index.Indexes = (*Indexes)(nil)
	_ index.Index   = (*Index)(nil)
)

// New returns the indexes in a server. It does not connect; see Health.
func New(config Config) (*Indexes, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	to, err := config.parse()
	if err != nil {
		return nil, err
	}
	options := []grpc.DialOption{
		grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(mostReceived)),
	}
	if config.Dial != nil {
		options = append(options, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return config.Dial(ctx, address)
		}))
	}
	client, err := qdrant.NewClient(&qdrant.Config{
		Host: to.host, Port: to.port, UseTLS: to.tls,
		APIKey:                 string(config.APIKey),
		SkipCompatibilityCheck: true, // it waits without a deadline; see Health
		GrpcOptions:            options,
		PoolSize:               1, // one connection carries all calls side by side
	})
	if err != nil {
		return nil, fmt.Errorf("the Qdrant client does not start: %w", err)
	}
	return &Indexes{config: config, client: client, executor: newExecutor(config)}, nil
}

// Health asks whether the server answers, and logs its version the first time.
func (x *Indexes) Health(ctx context.Context) error {
	reply, err := call(ctx, x, "ask for its health", x.client.HealthCheck)
	if err != nil {
		return err
	}
	x.greeted.Do(func() {
		version, err := qdrant.ParseVersion(reply.GetVersion())
		if err != nil || version.Major != 1 || version.Minor < 16 {
			x.config.Logger.WarnContext(ctx, "Qdrant server is older or newer than what the index was made for: 1.16 and later", "version", reply.GetVersion())
			return
		}
		x.config.Logger.InfoContext(ctx, "Qdrant server", "version", reply.GetVersion())
	})
	return nil
}

// Close ends the connections.
func (x *Indexes) Close() error { return x.client.Close() }

// Open returns the index of a vector space, made when absent.
func (x *Indexes) Open(ctx context.Context, space index.VectorSpace) (index.Index, error) {
	if err := index.CheckSpace(space); err != nil {
		return nil, err
	}
	if err := x.Health(ctx); err != nil {
		return nil, err
	}
	alias := x.alias(space)
	active, err := x.active(ctx, alias)
	if err != nil {
		return nil, err
	}
	if active == "" {
		// The name is the same for all who open it first, so that they make one.
		active = generation(alias, 1, "")
		if err := x.create(ctx, active, space); err != nil {
			return nil, err
		}
		if err := x.point(ctx, alias, active, false); err != nil {
			return nil, err
		}
	}
	if err := x.check(ctx, active, space); err != nil {
		return nil, err
	}
	if err := x.removeWhere(ctx, alias, func(n int, _ string) bool { return n < numberOf(active) }); err != nil {
		return nil, err
	}
	return &Index{indexes: x, collection: alias, space: space}, nil
}

// Drop removes the index of a vector space with everything in it.
func (x *Indexes) Drop(ctx context.Context, space index.VectorSpace) error {
	if err := index.CheckSpace(space); err != nil {
		return err
	}
	alias := x.alias(space)
	active, err := x.active(ctx, alias)
	if err != nil {
		return err
	}
	if active != "" {
		err := shape(ctx, x, "take an alias away", func(ctx context.Context) error { return x.client.DeleteAlias(ctx, alias) })
		if err != nil {
			return err
		}
	}
	return x.removeWhere(ctx, alias, func(int, string) bool { return true })
}

// Fresh begins a collection behind the running one; swap lets the alias stand for
// it and removes the old one.
func (x *Indexes) Fresh(ctx context.Context, space index.VectorSpace) (index.Index, func(context.Context) error, error) {
	if err := index.CheckSpace(space); err != nil {
		return nil, nil, err
	}
	alias := x.alias(space)
	active, err := x.active(ctx, alias)
	if err != nil {
		return nil, nil, err
	}
	// What another began and never swapped in is given up; who still fills it is
	// told so by its next call.
	if err := x.removeWhere(ctx, alias, func(_ int, name string) bool { return name != active }); err != nil {
		return nil, nil, err
	}
	made := generation(alias, numberOf(active)+1, uuid.NewString()[:8])
	if err := x.create(ctx, made, space); err != nil {
		return nil, nil, err
	}
	swap := func(ctx context.Context) error {
		active, err := x.active(ctx, alias)
		if err != nil {
			return err
		}
		if active != made {
			if err := x.check(ctx, made, space); err != nil {
				return err
			}
			if err := x.point(ctx, alias, made, active != ""); err != nil {
				return err
			}
		}
		return x.removeWhere(ctx, alias, func(n int, _ string) bool { return n < numberOf(made) })
	}
	return &Index{indexes: x, collection: made, space: space}, swap, nil
}

// alias is the name that an index of a vector space is used by.
func (x *Indexes) alias(space index.VectorSpace) string { return x.config.Prefix + "_" + space.ID }

// generation names a collection of an alias. '@' stands in no alias, so no alias
// is the beginning of another's collections.
func generation(alias string, number int, mark string) string {
	return fmt.Sprintf("%s@%d@%s", alias, number, mark)
}

// numberOf returns the number in a name that generation made; 0 for none.
func numberOf(collection string) int {
	_, rest, _ := strings.Cut(collection, "@")
	number, _, _ := strings.Cut(rest, "@")
	n, err := strconv.Atoi(number)
	if err != nil {
		return 0
	}
	return n
}

// active returns the collection that an alias stands for; empty for none.
func (x *Indexes) active(ctx context.Context, alias string) (string, error) {
	aliases, err := call(ctx, x, "list the aliases", x.client.ListAliases)
	if err != nil {
		return "", err
	}
	for _, found := range aliases {
		if found.GetAliasName() == alias {
			return found.GetCollectionName(), nil
		}
	}
	return "", nil
}

// point lets an alias stand for a collection, in one call also where it stood for
// another.
func (x *Indexes) point(ctx context.Context, alias, collection string, taken bool) error {
	actions := []*qdrant.AliasOperations{qdrant.NewAliasCreate(alias, collection)}
	if taken {
		actions = append([]*qdrant.AliasOperations{qdrant.NewAliasDelete(alias)}, actions...)
	}
	return shape(ctx, x, "set an alias", func(ctx context.Context) error { return x.client.UpdateAliases(ctx, actions) })
}

// removeWhere removes the collections of an alias that a rule names.
func (x *Indexes) removeWhere(ctx context.Context, alias string, rule func(number int, name string) bool) error {
	names, err := call(ctx, x, "list the collections", x.client.ListCollections)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, alias+"@") || !rule(numberOf(name), name) {
			continue
		}
		err := shape(ctx, x, "remove a collection", func(ctx context.Context) error { return x.client.DeleteCollection(ctx, name) })
		if err != nil {
			return err
		}
	}
	return nil
}
