package tool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The environment's proxy is read once per process, so that a test which sets
// it proves nothing.
func TestTransportUsesNoProxyOfTheProcess(t *testing.T) {
	egress, err := NewEgress(nil, nil, nil)
	require.NoError(t, err)
	require.Nil(t, egress.Transport().Proxy)
}
