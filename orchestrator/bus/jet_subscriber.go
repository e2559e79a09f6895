package bus

import (
	"context"
	"fmt"
	"time"

	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// jetSubscriber takes messages of one topic. The subscribers that come with the
// adapter close their output while another goroutine may still send into it;
// here one goroutine does both, so a subscriber that leaves cannot crash the
// process.
type jetSubscriber struct {
	jet   *jet
	topic Topic
}

// Subscribe begins a flow. In a queue every process shares one consumer that
// outlives them; of other topics each subscription sees what is told from now on.
func (s jetSubscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	consumer, err := s.consumer(ctx)
	if err != nil {
		s.jet.forget(s.topic)
		return nil, fmt.Errorf("create consumer: %w", err)
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(inFlight))
	if err != nil {
		return nil, fmt.Errorf("pull messages: %w", err)
	}
	j := s.jet
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		messages.Stop()
		return nil, ErrClosed
	}
	out := make(chan *message.Message)
	ctx, cancel := context.WithCancel(ctx)
	j.flows[messages] = cancel
	j.tasks.Go(func() {
		defer close(out)
		stop := context.AfterFunc(ctx, messages.Stop)
		s.flow(ctx, messages, out)
		if stop() {
			messages.Stop()
		}
		cancel()
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.flows, messages)
	})
	return out, nil
}

// Close does nothing: the carrier ends its subscriptions.
func (s jetSubscriber) Close() error { return nil }

func (s jetSubscriber) consumer(ctx context.Context) (jetstream.Consumer, error) {
	config := jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, AckWait: settleWait, MaxAckPending: inFlight}
	if kept[s.topic].queue {
		config.Durable = sharedGroup
	} else {
		config.DeliverPolicy, config.InactiveThreshold = jetstream.DeliverNewPolicy, idleAfter
		config.MemoryStorage = true
	}
	ctx, cancel := context.WithTimeout(ctx, brokerWait)
	defer cancel()
	return s.jet.js.CreateOrUpdateConsumer(ctx, s.jet.stream(s.topic), config)
}

// flow hands over one message after the other. It ends with the context, or
// when the broker lost the consumer: then whoever subscribed does it again.
func (s jetSubscriber) flow(ctx context.Context, messages jetstream.MessagesContext, out chan<- *message.Message) {
	for {
		in, err := messages.Next()
		if err != nil || ctx.Err() != nil {
			return
		}
		m, err := (&wmnats.NATSMarshaler{}).Unmarshal(&nats.Msg{Data: in.Data(), Header: in.Headers()})
		if err != nil {
			// A header that appears twice can be no message of ours: whoever
			// reads the empty one parks it.
			m = message.NewMessage(in.Headers().Get(wmnats.WatermillUUIDHdr), in.Data())
		}
		count := 1
		if meta, err := in.Metadata(); err == nil {
			count = int(meta.NumDelivered)
		}
		m.SetContext(withDeliveries(ctx, count))
		select {
		case out <- m:
		case <-ctx.Done():
			return
		}
		if !settle(ctx, in, m) {
			return
		}
	}
}

// settle passes on what became of a message. False ends the flow.
func settle(ctx context.Context, in jetstream.Msg, m *message.Message) bool {
	keep := time.NewTicker(settleWait / 3)
	defer keep.Stop()
	for {
		select {
		case <-m.Acked():
			return in.Ack() == nil
		case <-m.Nacked():
			return in.NakWithDelay(repeatWait) == nil
		case <-keep.C:
			if in.InProgress() != nil {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
}
