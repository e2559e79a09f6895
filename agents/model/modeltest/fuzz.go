package modeltest

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/model"
)

// FuzzStream checks that whatever a server streams is read to one answer or to
// one fault, however the network cuts it into pieces; and that up to any byte
// where it breaks, nothing becomes an answer but what ends as an answer does.
func (w Wire) FuzzStream(f *testing.F) {
	golden := w.Golden()
	f.Add(golden, 100)
	f.Add(golden, len(golden)-18) // just before the end
	f.Add(w.Stream(model.Answer{Finish: model.FinishStop, Text: "Grüße \u202e"}, Style{Piece: 1, LineEnd: "\r\n"}), 60)
	f.Add(w.Stream(model.Answer{Finish: model.FinishRefusal, Text: "no"}, Style{NoUsage: true}), 0)
	for _, garbage := range w.Garbage {
		f.Add([]byte(garbage), 9)
	}
	for stream := range w.Streamed {
		f.Add([]byte(stream), 20)
	}
	f.Add([]byte(":\n\r\rdata\ndata:\n\n\xef\xbb\xbfdata: [DONE]"), 5)
	f.Fuzz(func(t *testing.T, stream []byte, at int) {
		whole := w.taken(t, bytes.NewReader(stream))
		require.Equal(t, whole, w.taken(t, iotest.OneByteReader(bytes.NewReader(stream))), "pieces do not matter")
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
		broken := w.taken(t, io.MultiReader(bytes.NewReader(part), iotest.ErrReader(errors.New("broken"))))
		short := w.taken(t, bytes.NewReader(part))
		if !w.mayEnd(part) {
			require.NotNil(t, broken.fault)
			require.NotNil(t, short.fault)
		}
	})
}

func (w Wire) mayEnd(part []byte) bool {
	small := strings.ToLower(string(part))
	for _, word := range w.Ends {
		if strings.Contains(small, word) {
			return true
		}
	}
	return false
}

// FuzzCut checks that an answer is read as it was meant, and that no cut of its
// stream is an answer.
func (w Wire) FuzzCut(f *testing.F) {
	f.Add("I pay it.", `{"to":"ACME"}`, 20, 7)
	f.Add("", "", 1, 400)
	f.Add("data: [DONE]\n\n", "\"\u2028[DONE]", 3, 90)
	f.Fuzz(func(t *testing.T, text, arguments string, piece, at int) {
		text, arguments = strings.ToValidUTF8(text, ""), strings.ToValidUTF8(arguments, "")
		want := model.Answer{Finish: model.FinishCalls, Text: text, Calls: []model.Proposed{proposed("", "files_read", arguments)}}
		stream := w.Stream(want, Style{Piece: max(0, piece%64)})
		whole := w.taken(t, bytes.NewReader(stream))
		require.Nil(t, whole.fault)
		require.Equal(t, text, whole.answer.Text)
		require.Len(t, whole.answer.Calls, 1)
		if w.Arguments == nil {
			require.Equal(t, arguments, string(whole.answer.Calls[0].Arguments))
		}
		ends := w.Whole(stream)
		short := w.taken(t, bytes.NewReader(stream[:max(at%ends, -(at%ends))]))
		require.NotNil(t, short.fault)
		require.Equal(t, model.Cut, short.fault.Kind)
	})
}
