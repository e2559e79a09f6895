package bus

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
)

// local carries messages inside one process. Text in progress must keep its
// order and is taken at once, so its publisher waits for it; everything else is
// put in order by whoever reads it, so its publisher never waits.
type local struct{ loose, ordered *gochannel.GoChannel }

func newLocal() local {
	return local{
		loose:   gochannel.NewGoChannel(gochannel.Config{OutputChannelBuffer: 64}, nil),
		ordered: gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, nil),
	}
}

func (l local) channel(topic Topic) (*gochannel.GoChannel, error) {
	if _, known := kept[topic]; !known {
		return nil, ErrTopic
	}
	if topic == TopicText {
		return l.ordered, nil
	}
	return l.loose, nil
}

func (l local) publisher(_ context.Context, topic Topic) (message.Publisher, error) {
	return l.channel(topic)
}

func (l local) subscriber(_ context.Context, topic Topic) (message.Subscriber, error) {
	return l.channel(topic)
}

// Close ends both channels.
func (l local) Close() error {
	err := l.ordered.Close()
	if other := l.loose.Close(); err == nil {
		err = other
	}
	return err
}

// deliveredKey carries the count of deliveries in a message's context.
type deliveredKey struct{}

func withDeliveries(ctx context.Context, count int) context.Context {
	return context.WithValue(ctx, deliveredKey{}, count)
}

func deliveries(m *message.Message) int {
	if count, ok := m.Context().Value(deliveredKey{}).(int); ok {
		return count
	}
	return 1
}
