package pagetest_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/pagetest"
)

func TestStepsOfAPage(t *testing.T) {
	t.Parallel()
	steps := pagetest.Steps("```bash\na\nb\n```\n\nwords\n\n```text\nno output of it\n```\n\n```sh\nnot run\n```\n```bash\nc\n```\n\n```text\n{…\"x\"}\n201\n```\n")
	assert.Equal(t, steps, []pagetest.Step{{"a\nb\n", ""}, {"c\n", "{…\"x\"}\n201\n"}}, "steps")
	assert.True(t, pagetest.SeenAs("{1,\"x\"}\n201\n", steps[1].Seen), "what is shown")
	for _, other := range []string{"{1,\"y\"}\n201\n", "{1,\"x\"}\n", "{1,\"x\"}\n201\n\n", "{\n\"x\"}\n201\n", ""} {
		assert.True(t, !pagetest.SeenAs(other, steps[1].Seen), "something else: %q", other)
	}
}

func TestSectionOfAPage(t *testing.T) {
	t.Parallel()
	page := "# Page\n\n## One\n\na\n\n```bash\n## no heading\n```\n\n### Below\n\n## Two\n\nb\n"
	assert.Equal(t, pagetest.Section(page, "One"), "## One\n\na\n\n```bash\n## no heading\n```\n\n### Below\n\n", "a section")
	assert.Equal(t, pagetest.Section(page, "Two"), "## Two\n\nb\n", "the last section")
	assert.Equal(t, pagetest.Section(page, "no heading"), "", "no section")
}
