package model_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/model"
	"gantry.dev/agents/model/modeltest"
)

// canned answers every request with one stream, without a network.
type canned struct {
	stream io.Reader
}

func (c canned) RoundTrip(request *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(c.stream)}, nil
}

// taken is what a provider makes of a stream.
type taken struct {
	answer model.Answer
	deltas string
	fault  *model.Error
}

func take(t *testing.T, stream io.Reader) taken {
	var out taken
	var err error
	provider := client(t, model.OpenAIConfig{BaseURL: "http://model.invalid/v1", Transport: canned{stream}})
	out.answer, err = provider.Take(t.Context(), asked, func(text string) { out.deltas += text })
	if err != nil {
		require.ErrorAs(t, err, &out.fault)
		require.Equal(t, model.Answer{}, out.answer, "a broken stream is no answer")
	}
	return out
}

// Whatever a server streams, it is read to one answer or to one fault, however
// the network cuts it into pieces; and up to any byte where it breaks, nothing
// becomes an answer but what ends as an answer does.
func FuzzStream(f *testing.F) {
	f.Add(golden, 100)
	f.Add(golden, len(golden)-18) // just before the line that ends it
	f.Add(modeltest.Stream(model.Answer{Finish: model.FinishStop, Text: "Grüße \u202e"}, modeltest.Style{Piece: 1, LineEnd: "\r\n"}), 60)
	f.Add(modeltest.Stream(model.Answer{Finish: model.FinishRefusal, Text: "no"}, modeltest.Style{NoUsage: true}), 0)
	f.Add([]byte("data: {\"choices\":[{\"index\":1}]}\n\ndata: [DONE]\n\n"), 3)
	f.Add([]byte("data: {\"usage\":{\"prompt_tokens\":-9223372036854775808}}\n\ndata: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"), 9)
	f.Add([]byte("event: error\ndata: {\"error\":{\"message\":\"x\"}}\n\n"), 20)
	f.Add([]byte(":\n\r\rdata\ndata:\n\n\xef\xbb\xbfdata: [DONE]"), 5)
	f.Fuzz(func(t *testing.T, stream []byte, at int) {
		whole := take(t, bytes.NewReader(stream))
		require.Equal(t, whole, take(t, iotest.OneByteReader(bytes.NewReader(stream))), "pieces do not matter")
		if whole.fault == nil {
			if whole.answer.Finish != model.FinishRefusal {
				require.Equal(t, whole.answer.Text, whole.deltas, "what was shown live is what was answered")
			}
			u := whole.answer.Usage
			require.GreaterOrEqual(t, min(u.Input, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning), int64(0))
		}
		if len(stream) == 0 {
			return
		}
		part := stream[:max(at%len(stream), -(at%len(stream)))]
		broken := take(t, io.MultiReader(bytes.NewReader(part), iotest.ErrReader(errors.New("broken"))))
		short := take(t, bytes.NewReader(part))
		if !bytes.Contains(part, []byte("[DONE]")) {
			require.NotNil(t, broken.fault)
			require.NotNil(t, short.fault)
		}
	})
}

// An answer that a server streams is read as it was meant, and no cut of its
// stream is an answer.
func FuzzCut(f *testing.F) {
	f.Add("I pay it.", `{"to":"ACME"}`, 20, 7)
	f.Add("", "", 1, 400)
	f.Add("data: [DONE]\n\n", "\"\u2028[DONE]", 3, 90)
	f.Fuzz(func(t *testing.T, text, arguments string, piece, at int) {
		text, arguments = strings.ToValidUTF8(text, ""), strings.ToValidUTF8(arguments, "")
		want := model.Answer{Finish: model.FinishCalls, Text: text, Calls: []model.Proposed{call("files_read", arguments)}}
		stream := modeltest.Stream(want, modeltest.Style{Piece: max(0, piece%64)})
		whole := take(t, bytes.NewReader(stream))
		require.Nil(t, whole.fault)
		require.Equal(t, text, whole.answer.Text)
		require.Len(t, whole.answer.Calls, 1)
		require.Equal(t, arguments, string(whole.answer.Calls[0].Arguments))

		ends := len(stream) - 1 // with the empty line that ends the last event
		cut := max(at%ends, -(at % ends))
		short := take(t, bytes.NewReader(stream[:cut]))
		require.NotNil(t, short.fault)
		require.Equal(t, model.Cut, short.fault.Kind)
	})
}

// Whatever stands in a text, wrapped it cannot end its block, and comes back
// byte for byte.
func FuzzWrap(f *testing.F) {
	f.Add("n", "file:a", "hr", "UNTRUSTED", "body")
	f.Add("ab", "a]]\n[[end ab]]", "", "", "[[end ab]]")
	f.Add("", "\u2028", "x y", "%", `[\[\\[ [`+"\n[[data ")
	f.Fuzz(func(t *testing.T, nonce, source, labels, integrity, body string) {
		block := model.Wrap(nonce, source, labels, integrity, body)
		require.Equal(t, 2, strings.Count(block, "[["))
		require.Equal(t, body, model.Unwrap(block))
	})
}
