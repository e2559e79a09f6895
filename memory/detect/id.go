package detect

import "regexp"

// idRule finds the numbers by which one state knows people. Where a number's
// form and check digits do not tell it from others, the words before it must.
type idRule struct {
	name  string
	form  *regexp.Regexp // at the beginning of a text
	valid func(number string) bool
	said  *regexp.Regexp // at the end of what stands before; nil: not needed
}

func id(name, form string, valid func(string) bool, said string) idRule {
	r := idRule{name: name, form: regexp.MustCompile(`^(?:` + form + `)`), valid: valid}
	if said != "" {
		r.said = regexp.MustCompile(`(?:` + said + `)[^0-9]{0,32}$`)
	}
	return r
}

var idRules = []idRule{
	id("us-ssn", `\d{3}([- ])\d{2}[- ]\d{4}`, ssn, ""),
	id("us-ssn", `\d{9}`, ssn, `\bssn\b|social security`),
	id("us-itin", `9\d{2}[- ]?\d{2}[- ]?\d{4}`, itin, `\bitin\b|taxpayer`),
	id("de-tax-id", `[1-9]\d ?\d{3} ?\d{3} ?\d{3}`, germanTax, ""),
	id("de-pension", `\d{2} ?\d{6} ?[A-Za-z] ?\d{3}`, germanPension, ""),
	id("fr-nir", `[12] ?\d{2} ?(?:0[1-9]|[1-9]\d) ?(?:\d{2}|2[ABab]) ?\d{3} ?\d{3} ?\d{2}`, frenchNIR, ""),
	id("uk-nino", `[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]`, nino, ""),
	id("uk-nhs", `\d{3}[ -]?\d{3}[ -]?\d{4}`, nhs, `\bnhs\b`),
	id("se-personnummer", `(?:19|20)?\d{6}[-+]\d{4}`, swedish, ""),
	id("se-personnummer", `(?:19|20)?\d{10}`, swedish, `personnummer|person ?nr|samordningsnummer`),
	id("fi-hetu", `\d{6}[-+ABCDEFYXWVU]\d{3}[0-9A-FHJ-NPR-Y]`, finnish, ""),
	id("no-fodselsnummer", `\d{6} ?\d{5}`, norwegian, ""),
	id("dk-cpr", `\d{6}[- ]?\d{4}`, danish, `\bcpr\b|personnummer`),
	id("nl-bsn", `\d{4}[ .]?\d{2}[ .]?\d{3}`, bsn, `\bbsn\b|burgerservice|sofinummer`),
	id("be-national", `\d{2}[. ]?\d{2}[. ]?\d{2}[- ]?\d{3}[. ]?\d{2}`, belgian, ""),
	id("ch-ahv", `756[. ]?\d{4}[. ]?\d{4}[. ]?\d{2}`, swiss, ""),
	id("at-svnr", `\d{4} ?\d{6}`, austrian, `\bsvnr\b|sozialversicherung|sv-nummer|versicherungsnummer`),
	id("es-dni", `\d{8}[- ]?[A-Za-z]`, dni, ""),
	id("es-nie", `[XYZxyz][- ]?\d{7}[- ]?[A-Za-z]`, nie, ""),
	id("it-codice-fiscale", `[A-Za-z]{6} ?\d{2}[A-EHLMPR-Ta-ehlmpr-t]\d{2} ?[A-Za-z]\d{3}[A-Za-z]`, codiceFiscale, ""),
	id("pl-pesel", `\d{11}`, pesel, ""),
	id("br-cpf", `\d{3}\.\d{3}\.\d{3}-\d{2}`, cpf, ""),
	id("br-cpf", `\d{11}`, cpf, `\bcpf\b`),
	id("ca-sin", `\d{3}[- ]?\d{3}[- ]?\d{3}`, sin, `\bsin\b|\bnas\b|social insurance`),
	id("in-aadhaar", `[2-9]\d{3}[ -]\d{4}[ -]\d{4}`, aadhaar, ""),
	id("in-aadhaar", `[2-9]\d{11}`, aadhaar, `aadha+r`),
	id("au-tfn", `\d{3} ?\d{3} ?\d{3}`, tfn, `\btfn\b|tax file`),
}

func findIDs(f *folded, lower string, at []int) (found []Span) {
	for _, from := range at {
		if f.text[from] == '+' || f.text[from] == '(' {
			continue
		}
		text := piece(f.text, from)
		if !hasDigit(text) {
			continue
		}
		for i := range idRules {
			r := &idRules[i]
			size := len(r.form.FindString(text))
			if size == 0 || !ends(text, size) || !r.valid(text[:size]) || r.said != nil && !r.said.MatchString(before(lower, from)) {
				continue
			}
			start, end := f.span(from, from+size)
			found = append(found, Span{Start: start, End: end, Kind: NationalID, Rule: r.name})
			break
		}
	}
	return found
}
