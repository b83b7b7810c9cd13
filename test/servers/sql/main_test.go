package sql_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }
