package showcase

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"gantry.dev/cmd/gantry/client"
)

// canaries are words of the forgotten fact that stand nowhere else.
var canaries = [...]string{"Amara Diallo goes to band C", "put off because of the written warning", "for the accounts team: it comes"}

// forget has the fact forgotten by somebody who may not, and by who may.
func (s *show) forget(ctx context.Context, fact client.MemoryItem) (client.ForgetReceipt, error) {
	_, err := s.people["jonas.petersen"].Forget(ctx, client.Forget{Items: []string{fact.ID}})
	if err := s.Check(client.IsCode(err, "NOT_WHOLE"), "who sees a part may not erase the whole"); err != nil {
		return client.ForgetReceipt{}, err
	}
	receipt, err := s.people["ruth.abelson"].Forget(ctx, client.Forget{Items: []string{fact.ID}})
	if err != nil {
		return receipt, err
	}
	var taken []string
	for _, store := range receipt.Stores {
		taken = append(taken, fmt.Sprintf("%d of %s", store.Count, store.Name))
	}
	verified := "not verified yet"
	if receipt.VerifiedAt != nil {
		verified = "every path asked again and found empty"
	}
	if n := len(receipt.Runs); n > 0 {
		verified += fmt.Sprintf("; %d runs had recalled it, and what they said from it is erased", n)
	}
	return receipt, errors.Join(
		s.Say("\n%s\nreceipt %s by %s: %s; %s\ndigest %s", rule(`ruth.abelson forgets "`+forgotten+`"`), client.ShortID(receipt.ID),
			receipt.By.Principal, strings.Join(taken, ", "), verified, receipt.Digest),
		s.Check(receipt.VerifiedAt != nil && len(receipt.Items) > 0, "the receipt is verified"))
}

// gone asks every path of everybody for the forgotten fact.
func (s *show) gone(ctx context.Context, fact client.MemoryItem, question string, after []Answer) error {
	for _, answer := range after {
		_, recalled := answer.reading(fact.ID)
		if err := s.absent(ctx, answer.Principal, fact.ID); recalled || err != nil {
			return errors.Join(fmt.Errorf("not so: %s gets nothing of it any more", answer.Principal), err)
		}
	}
	for who, id := range s.runs {
		before, err := s.people[who].Run(ctx, id)
		if err != nil || before.End.Result == nil || len(before.End.Result.Withheld) == 0 || before.End.Result.Withheld[0].Reason != "ERASED" {
			return errors.Join(errors.New("not so: what a run said from it is erased"), err)
		}
	}
	answer, err := s.answer(ctx, "ruth.abelson", question)
	if err != nil || holdsCanary([]byte(answer)) {
		return errors.Join(errors.New("not so: a new run recalls nothing of it"), err)
	}
	return s.Check(true, "the fact is gone from recall, by id, from the list of everybody, from what runs said, and from new runs")
}

// absent looks by id and through the whole list.
func (s *show) absent(ctx context.Context, principal, id string) error {
	if _, err := s.people[principal].MemoryItem(ctx, id); !client.IsCode(err, "NOT_FOUND") {
		return fmt.Errorf("by id: %w", errors.Join(err, errStillThere))
	}
	return s.people[principal].MemoryItems(ctx, client.MemoryFilter{Archived: true}, func(item client.MemoryItem) (bool, error) {
		if item.ID == id || holdsCanary([]byte(item.Text)) {
			return false, fmt.Errorf("in the list: %w", errStillThere)
		}
		return true, nil
	})
}

var errStillThere = errors.New("it is still there")

func holdsCanary(text []byte) bool {
	for _, canary := range canaries {
		if bytes.Contains(text, []byte(canary)) {
			return true
		}
	}
	return false
}

// nowhere looks through the bytes of every file of the installation and its log.
func (s *show) nowhere() error {
	files := 0
	folder, err := os.OpenRoot(s.Folder)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }() // only read
	err = fs.WalkDir(folder.FS(), ".", func(at string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := folder.ReadFile(at)
		if err == nil && holdsCanary(content) {
			err = fmt.Errorf("in the file %s: %w", entry.Name(), errStillThere)
		}
		files++
		return err
	})
	if err != nil {
		return err
	}
	return s.Check(files > 0 && !holdsCanary([]byte(s.Log())), "no byte of it in %d files and the log", files)
}
