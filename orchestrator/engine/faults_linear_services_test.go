//go:build services

package engine_test

import (
	"database/sql/driver"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/journal"
)

// postgresCrowd speaks to two processes on one database.
func postgresCrowd(t *testing.T) *crowd {
	house := onPostgres(t)
	var stores []*journal.Store
	for range 2 {
		store := house.open(&lane{nowMs: ordealStartMs}, func(c driver.Connector) driver.Connector { return c })
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		stores = append(stores, store)
	}
	return newCrowd(t, stores...)
}

func TestFault_F3_WhatRacingPeopleAreToldByTwoProcessesIsOneStory(t *testing.T) {
	postgresCrowd(t).goOn(20)
}

func TestFault_F1_OfAHundredApprovalsThroughTwoProcessesOneCounts(t *testing.T) {
	postgresCrowd(t).hundred()
}

func TestFault_J14_CopiesOfACommandToTwoProcessesCountOnce(t *testing.T) { postgresCrowd(t).repeats() }

func TestFault_H2_ReservationsThroughTwoProcessesAreInOneOrder(t *testing.T) {
	postgresCrowd(t).carves()
}
