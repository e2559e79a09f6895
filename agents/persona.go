package agents

import (
	"fmt"
	"slices"

	"gantry.dev/orchestrator/canon"
)

// Consent is a person's word that agents may speak in that person's own voice.
// It holds for exactly the voice that was consented to.
type Consent struct {
	Persona string `json:"persona"`
	Person  string `json:"person"` // principal id
	Voice   string `json:"voice"`  // digest of the voice's text
	AtMs    int64  `json:"atMs"`   // UTC, milliseconds since 1970
}

// GiveVoice records that the person whose own voice a persona is lets agents
// speak in it, as it is worded now.
func GiveVoice(current Organisation, persona, by string, atMs int64) (Organisation, error) {
	p, err := current.ownVoice(persona, by)
	if err != nil {
		return Organisation{}, err
	}
	voice, err := canon.DigestOf(p.Voice)
	if err != nil {
		return Organisation{}, err
	}
	if c, given := current.consent(persona); given && c.Voice == voice && c.Person == by {
		return current, nil
	}
	next := current
	next.Consents = replaced(current.Consents, Consent{Persona: persona, Person: by, Voice: voice, AtMs: atMs}, func(c Consent) string { return c.Persona })
	return next.checked()
}

// WithdrawVoice takes that back: from then on no run of an agent with the
// persona begins anything.
func WithdrawVoice(current Organisation, persona, by string) (Organisation, error) {
	if _, err := current.ownVoice(persona, by); err != nil {
		return Organisation{}, err
	}
	next := current
	next.Consents = slices.DeleteFunc(slices.Clone(current.Consents), func(c Consent) bool { return c.Persona == persona })
	return next.checked()
}

// ownVoice returns the persona, to the person whose own voice it is. To anybody
// else it is unknown.
func (o Organisation) ownVoice(persona, by string) (Persona, error) {
	p, known := o.Persona(persona)
	if !known || p.VoiceOf == "" || p.VoiceOf != by {
		return Persona{}, fmt.Errorf("voice of persona %q: %w", persona, ErrUnknown)
	}
	return p, nil
}

func (o Organisation) consent(persona string) (Consent, bool) {
	return find(o.Consents, func(c Consent) bool { return c.Persona == persona })
}

// Silent reports whether the persona is a person's own voice that this person
// does not lend, at least not as it is worded.
func (o Organisation) Silent(persona Persona) bool {
	if persona.VoiceOf == "" {
		return false
	}
	c, given := o.consent(persona.Name)
	voice, err := canon.DigestOf(persona.Voice)
	return !given || err != nil || c.Person != persona.VoiceOf || c.Voice != voice
}
