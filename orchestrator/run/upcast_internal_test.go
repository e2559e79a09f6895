package run

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// withForm replaces the form of a kind for one test.
func withForm(t *testing.T, kind EventKind, changed form) {
	kept := forms[kind]
	forms[kind] = changed
	t.Cleanup(func() { forms[kind] = kept })
}

// raise makes an upcaster that rewrites the fields of a body.
func raise(change func(map[string]string)) func(json.RawMessage) (json.RawMessage, error) {
	return func(body json.RawMessage) (json.RawMessage, error) {
		fields := map[string]string{}
		if err := json.Unmarshal(body, &fields); err != nil {
			return nil, err
		}
		change(fields)
		return json.Marshal(fields)
	}
}

// parkedForm had a field "why" in version 1, and no detail up to version 2.
func parkedForm() form {
	current := formOf[Parked]()
	current.version = 3
	current.upcast = map[int]func(json.RawMessage) (json.RawMessage, error){
		1: raise(func(fields map[string]string) { fields["code"] = fields["why"]; delete(fields, "why") }),
		2: raise(func(fields map[string]string) { fields["detail"] = fields["code"] + " was not explained" }),
	}
	return current
}

func TestAnOldRecordIsRaisedStepByStep(t *testing.T) {
	withForm(t, KindParked, parkedForm())
	for version, body := range map[int]string{
		1: `{"why":"CRASHES"}`,
		2: `{"code":"CRASHES"}`,
		3: `{"code":"CRASHES","detail":"CRASHES was not explained"}`,
	} {
		event, err := Decode(Record{Kind: KindParked, Version: version, Body: []byte(body)})
		require.NoError(t, err, "version %d", version)
		require.Equal(t, Parked{Code: "CRASHES", Detail: "CRASHES was not explained"}, event)
	}
	written, err := Encode("r1", Record{}, 1, Parked{Code: "CRASHES"})
	require.NoError(t, err)
	require.Equal(t, 3, written.Version, "new records have the newest form")
}

func TestWhatCannotBeRaisedIsUnknown(t *testing.T) {
	broken, gap := parkedForm(), parkedForm()
	broken.upcast[1] = func(json.RawMessage) (json.RawMessage, error) { return nil, errors.New("unreadable") }
	delete(gap.upcast, 2)
	for name, c := range map[string]struct {
		form   form
		record Record
	}{
		"a version to come":      {parkedForm(), Record{Version: 4, Body: []byte(`{}`)}},
		"no version":             {parkedForm(), Record{Version: 0, Body: []byte(`{}`)}},
		"an upcaster that fails": {broken, Record{Version: 1, Body: []byte(`{"why":"x"}`)}},
		"an upcaster that lacks": {gap, Record{Version: 1, Body: []byte(`{"why":"x"}`)}},
		"a field to come":        {parkedForm(), Record{Version: 3, Body: []byte(`{"code":"x","later":1}`)}},
		"a second value":         {parkedForm(), Record{Version: 3, Body: []byte(`{"code":"x"}{}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			withForm(t, KindParked, c.form)
			c.record.Kind = KindParked
			_, err := Decode(c.record)
			require.ErrorIs(t, err, ErrUnknownRecord)
		})
	}
}

func TestEveryFormIsRaisedFromItsFirstVersion(t *testing.T) {
	for kind, form := range forms {
		require.Len(t, form.upcast, form.version-1, kind)
		for version := 1; version < form.version; version++ {
			require.Contains(t, form.upcast, version, kind)
		}
	}
}
