package wire

import (
	"bytes"
	"testing"

	"github.com/qdrant/go-client/qdrant"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Request is a call that came.
type Request struct {
	Method  string
	Message proto.Message
	Bytes   []byte // of the message
}

func (s *Server) record(method string, message proto.Message) error {
	raw, err := proto.Marshal(message)
	if err != nil {
		return status.Error(codes.InvalidArgument, "no message")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, Request{Method: method, Message: proto.Clone(message), Bytes: raw})
	return nil
}

// Requests returns the calls of a method that came so far; of all for an empty
// name.
func (s *Server) Requests(method string) (found []Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, request := range s.requests {
		if method == "" || request.Method == method {
			found = append(found, request)
		}
	}
	return found
}

// RequireGuarded fails a test unless every query that came says in must who asks,
// is exact, and asks for no vectors; and unless every walk and every deletion
// names an organisation. It returns how many there were.
func (s *Server) RequireGuarded(t testing.TB) (checked int) {
	t.Helper()
	for _, request := range s.Requests("") {
		switch r := request.Message.(type) {
		case *qdrant.QueryBatchPoints:
			require.NotEmpty(t, r.GetQueryPoints())
			for _, query := range r.GetQueryPoints() {
				guarded(t, query)
				checked++
			}
		case *qdrant.ScrollPoints:
			requireMust(t, r.GetFilter(), "organisation")
			withoutVectors(t, r.GetWithVectors())
			checked++
		case *qdrant.DeletePoints:
			requireMust(t, r.GetPoints().GetFilter(), "organisation", "item")
			require.True(t, r.GetWait())
			require.Equal(t, qdrant.WriteOrderingType_Strong, r.GetOrdering().GetType())
			checked++
		case *qdrant.UpsertPoints:
			require.True(t, r.GetWait())
			require.Equal(t, qdrant.WriteOrderingType_Strong, r.GetOrdering().GetType())
			checked++
		}
	}
	return checked
}

func guarded(t testing.TB, query *qdrant.QueryPoints) {
	t.Helper()
	requireMust(t, query.GetFilter(), "organisation", "space", "set", "expires")
	require.Empty(t, query.GetPrefetch())
	require.True(t, query.GetParams().GetExact())
	require.Nil(t, query.GetParams().GetQuantization())
	withoutVectors(t, query.GetWithVectors())
	require.ElementsMatch(t, []string{"item", "version", "set"}, query.GetWithPayload().GetInclude().GetFields())
}

// requireMust wants one condition in must for each of these fields, with one check
// and a value; and nothing of which one of several is enough.
func requireMust(t testing.TB, filter *qdrant.Filter, fields ...string) {
	t.Helper()
	require.Empty(t, filter.GetShould())
	require.Nil(t, filter.GetMinShould())
	found := map[string]bool{}
	for _, condition := range filter.GetMust() {
		field := condition.GetField()
		require.NotNil(t, field)
		require.NotEqual(t, field.GetMatch() == nil, field.GetRange() == nil, "one check in one condition")
		switch match := field.GetMatch().GetMatchValue().(type) {
		case *qdrant.Match_Keyword:
			require.NotEmpty(t, match.Keyword)
		case *qdrant.Match_Keywords:
			require.NotEmpty(t, match.Keywords.GetStrings())
		case nil:
			require.NotNil(t, field.GetRange().Gt)
		default:
			require.Fail(t, "another match", "%T", match)
		}
		found[field.GetKey()] = true
	}
	for _, field := range fields {
		require.True(t, found[field], "must has no %s", field)
	}
}

func withoutVectors(t testing.TB, selector *qdrant.WithVectorsSelector) {
	t.Helper()
	require.NotNil(t, selector)
	require.Equal(t, &qdrant.WithVectorsSelector_Enable{}, selector.GetSelectorOptions())
}

// RequireNowhere fails a test when one of these texts came in any call.
func (s *Server) RequireNowhere(t testing.TB, texts ...string) {
	t.Helper()
	for _, request := range s.Requests("") {
		for _, text := range texts {
			require.False(t, bytes.Contains(request.Bytes, []byte(text)), "%s carries a text", request.Method)
		}
	}
}
