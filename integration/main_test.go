package integration_test

import "testing"

func TestMain(m *testing.M) { runMain(m) }
