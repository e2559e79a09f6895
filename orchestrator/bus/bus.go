// Package bus tells what was committed and takes in what is wished by message.
// The journal is the truth: the bus may lose, repeat and reorder, and all that
// costs is time. A Relay tells committed batches from a cursor, a Hub gives
// gap-free live tails, a Receiver takes commands.
package bus

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Errors of a bus.
var (
	ErrClosed  = errors.New("the bus is closed")
	ErrAddress = errors.New("the address of the bus must be empty or begin with nats:// or tls://")
	ErrTopic   = errors.New("no such topic")
)

// Config says where messages are told.
type Config struct {
	URL         string // empty: inside this process; nats:// or tls://: JetStream
	Namespace   string // before every topic, a-z, 0-9 and _; empty means "gantry"
	Credentials string // path of a NATS credentials file, empty for none
}

// Message is one thing told.
type Message struct {
	ID       string // equal ids are the same message; a broker may drop repetitions
	Metadata map[string]string
	Body     []byte
	Delivery int // how often it was delivered, from 1; always 1 inside one process; set by the bus
}

// carrier is a way of telling.
type carrier interface {
	publisher(ctx context.Context, topic Topic) (message.Publisher, error)
	subscriber(ctx context.Context, topic Topic) (message.Subscriber, error)
	Close() error
}

// Bus tells messages and delivers them at least once to whoever is
// subscribed, in no promised order. It is safe for concurrent use.
type Bus struct {
	carrier   carrier
	namespace string
}

// Open returns a bus. A broker that does not answer yet is no error: Publish
// and Subscribe fail until it does. Errors: ErrAddress.
func Open(config Config) (*Bus, error) {
	if config.Namespace == "" {
		config.Namespace = "gantry"
	}
	for _, r := range config.Namespace {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' {
			return nil, fmt.Errorf("%w: namespace", ErrTopic)
		}
	}
	if config.URL == "" {
		return &Bus{carrier: newLocal(), namespace: config.Namespace}, nil
	}
	parsed, err := url.Parse(config.URL)
	if err != nil || (parsed.Scheme != "nats" && parsed.Scheme != "tls") {
		return nil, ErrAddress // the address may hold a password: it is not repeated
	}
	broker, err := openJet(config)
	if err != nil {
		return nil, err
	}
	return &Bus{carrier: broker, namespace: config.Namespace}, nil
}

func (b *Bus) name(topic Topic) string { return b.namespace + "." + string(topic) }

// Publish tells a message. It returns once the carrier has it. With a broker
// that is away it fails after some seconds.
func (b *Bus) Publish(ctx context.Context, topic Topic, m Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	publisher, err := b.carrier.publisher(ctx, topic)
	if err != nil {
		return err
	}
	out := message.NewMessage(m.ID, m.Body)
	for key, value := range m.Metadata {
		out.Metadata.Set(key, value)
	}
	if err := publisher.Publish(b.name(topic), out); err != nil {
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	return nil
}

// Subscription is a flow of messages that has begun.
type Subscription struct{ in <-chan *message.Message }

// Subscribe begins to take messages told from now on, and of TopicCommands
// those that wait. It lasts until the context ends, the bus is closed or the
// broker drops it. The caller must run Each.
func (b *Bus) Subscribe(ctx context.Context, topic Topic) (*Subscription, error) {
	subscriber, err := b.carrier.subscriber(ctx, topic)
	if err != nil {
		return nil, err
	}
	in, err := subscriber.Subscribe(ctx, b.name(topic))
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", topic, err)
	}
	return &Subscription{in: in}, nil
}

// Each calls handle for one message after the other until the subscription is
// over. A message whose handle fails is delivered again.
func (s *Subscription) Each(handle func(context.Context, Message) error) {
	for m := range s.in {
		in := Message{ID: m.UUID, Metadata: m.Metadata, Body: m.Payload, Delivery: deliveries(m)}
		if handle(m.Context(), in) == nil {
			m.Ack()
		} else {
			m.Nack()
		}
	}
}

// Close ends all subscriptions.
func (b *Bus) Close() error { return b.carrier.Close() }
