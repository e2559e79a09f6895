package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/sourcegraph/conc"
)

const (
	brokerWait  = 3 * time.Second  // for one answer of the broker
	settleWait  = 30 * time.Second // for a message to be settled before it is delivered again
	repeatWait  = time.Second      // before a message that failed is delivered again
	idleAfter   = time.Minute      // after which the broker forgets a process that went away
	inFlight    = 256              // messages delivered and not settled, per process
	sharedGroup = "gantry"         // durable consumer of a queue
)

// errBroker is what is said of a broker that cannot be reached: its own error
// may repeat the address and with it a password.
var errBroker = errors.New("the broker cannot be used as configured")

// jet carries messages by JetStream.
type jet struct {
	conn      *nats.Conn
	js        jetstream.JetStream
	namespace string
	publish   *wmnats.Publisher
	ended     chan struct{} // the connection is closed
	tasks     conc.WaitGroup

	mu      sync.Mutex
	closed  bool
	streams map[Topic]bool                                   // known to exist
	flows   map[jetstream.MessagesContext]context.CancelFunc // subscriptions that last
}

func openJet(config Config) (*jet, error) {
	j := &jet{namespace: config.Namespace, ended: make(chan struct{}), streams: map[Topic]bool{},
		flows: map[jetstream.MessagesContext]context.CancelFunc{}}
	options := []nats.Option{
		nats.Name("gantry"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(250 * time.Millisecond),
		nats.Timeout(brokerWait), nats.ReconnectBufSize(-1), nats.ClosedHandler(func(*nats.Conn) { close(j.ended) }),
	}
	if config.Credentials != "" {
		options = append(options, nats.UserCredentials(config.Credentials))
	}
	conn, err := nats.Connect(config.URL, options...)
	if err != nil {
		return nil, errBroker
	}
	j.conn = conn
	if j.js, err = jetstream.New(conn, jetstream.WithDefaultTimeout(brokerWait)); err != nil {
		return nil, errors.Join(errBroker, j.Close())
	}
	j.publish, err = wmnats.NewPublisherWithNatsConn(conn, wmnats.PublisherPublishConfig{
		Marshaler: &wmnats.NATSMarshaler{}, SubjectCalculator: wmnats.DefaultSubjectCalculator,
		JetStream: wmnats.JetStreamConfig{TrackMsgId: true, ConnectOptions: []nats.JSOpt{nats.MaxWait(brokerWait)}},
	}, nil)
	if err != nil {
		return nil, errors.Join(errBroker, j.Close())
	}
	return j, nil
}

// Close ends all subscriptions and the connection.
func (j *jet) Close() error {
	j.mu.Lock()
	closed := j.closed
	j.closed = true
	for _, cancel := range j.flows {
		cancel()
	}
	j.mu.Unlock()
	if closed {
		return nil
	}
	j.tasks.Wait()
	j.conn.Close()
	<-j.ended
	return nil
}

func (j *jet) stream(topic Topic) string {
	return strings.ToUpper(j.namespace + "_" + string(topic))
}

// provide makes the stream of a topic, with limits, unless it is known to exist.
func (j *jet) provide(ctx context.Context, topic Topic) error {
	keep, known := kept[topic]
	if !known {
		return ErrTopic
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return ErrClosed
	}
	if j.streams[topic] {
		return nil
	}
	config := jetstream.StreamConfig{
		Name: j.stream(topic), Subjects: []string{j.namespace + "." + string(topic)}, MaxAge: keep.age, MaxBytes: keep.bytes,
		MaxMsgSize: 1 << 20, Discard: jetstream.DiscardOld, Duplicates: keep.distinct,
	}
	if keep.memory {
		config.Storage = jetstream.MemoryStorage
	}
	if keep.queue {
		config.Retention, config.Discard = jetstream.WorkQueuePolicy, jetstream.DiscardNew
	}
	ctx, cancel := context.WithTimeout(ctx, brokerWait)
	defer cancel()
	if _, err := j.js.CreateOrUpdateStream(ctx, config); err != nil {
		return fmt.Errorf("provide stream %s: %w", topic, err)
	}
	j.streams[topic] = true
	return nil
}

// forget lets the stream be provided again: an operator may have deleted it.
func (j *jet) forget(topic Topic) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.streams, topic)
}

func (j *jet) publisher(ctx context.Context, topic Topic) (message.Publisher, error) {
	if err := j.provide(ctx, topic); err != nil {
		return nil, err
	}
	return jetPublisher{jet: j, topic: topic}, nil
}

type jetPublisher struct {
	jet   *jet
	topic Topic
}

// Publish tells messages; a failure may mean that the stream is gone.
func (p jetPublisher) Publish(name string, messages ...*message.Message) error {
	err := p.jet.publish.Publish(name, messages...)
	if err != nil {
		p.jet.forget(p.topic)
	}
	return err
}

// Close does nothing: the carrier owns the connection.
func (p jetPublisher) Close() error { return nil }

func (j *jet) subscriber(ctx context.Context, topic Topic) (message.Subscriber, error) {
	if err := j.provide(ctx, topic); err != nil {
		return nil, err
	}
	return jetSubscriber{jet: j, topic: topic}, nil
}
