package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe"
)

func restoreCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "restore", RunE: onlySubcommands,
		Short: "See whether a store went back to an older state, and accept it",
		Long: "restore works on the marks that gateways leave in their store every few seconds. From them a gateway that runs learns that\n" +
			"the store went back to an older state, for example because a backup was restored. It refuses new keys then, since they\n" +
			"may have run before.",
	}
	c.AddCommand(restoreCheckCommand(), restoreAcceptCommand())
	return c
}

func restoreCheckCommand() *cobra.Command {
	var f namespaceFlags
	c := &cobra.Command{
		Use: "check", Args: cobra.NoArgs, Short: "Show whether the store of a namespace went back",
		Long: "check shows the marks of the namespace, and writes nothing. It exits with 0 if the store did not go back, with 1 if it\n" +
			"went back and no operator has accepted that, or if the store does not answer, and with 2 for a wrong call.",
		RunE: func(c *cobra.Command, _ []string) error { return f.checkHistory(c) },
	}
	f.addCommonFlags(c)
	return c
}

func restoreAcceptCommand() *cobra.Command {
	var f acceptFlags
	c := &cobra.Command{
		Use: "accept --lost-from TIME --lost-until TIME --reason TEXT", Args: cobra.NoArgs, Short: "Run new keys again after the store went back",
		Long: "accept ends the refusal of new keys. What the store has forgotten runs again when its clients repeat it, so first find\n" +
			"out what was done in that time, or wait until no client repeats it any more. The flags name the time, as restore check\n" +
			"shows it. If another one is lost by now, nothing is changed. Gateways that run notice it within seconds. The audit log\n" +
			"of the namespace gets an entry first.",
		RunE: func(c *cobra.Command, _ []string) error { return f.acceptHistory(c) },
	}
	f.addCommonFlags(c)
	c.Flags().StringVar(&f.lostFrom, "lost-from", "", "begin of the lost time, as restore check shows it; required")
	c.Flags().StringVar(&f.lostUntil, "lost-until", "", "its end; required")
	f.operator.addFlags(c, "why, for the audit log; required")
	f.seal.addTo(c.Flags())
	return c
}

// acceptFlags are the flags of restore accept.
type acceptFlags struct {
	namespaceFlags
	lostFrom, lostUntil string
}

// requireLoss returns an error unless the flags name the time that is lost. They have seconds, as
// restore check shows them.
func (f *acceptFlags) requireLoss(h *retrysafe.StoreHistory) error {
	if f.lostFrom != shownTime(h.LostFrom) || f.lostUntil != shownTime(h.LostUntil) {
		return fmt.Errorf("namespace %s: %s, which is not the time of --lost-from and --lost-until; nothing was changed", Printable(f.namespace), lostTime(h))
	}
	return nil
}

// requireTimes checks that both times are given.
func (f *acceptFlags) requireTimes() error {
	for _, flag := range [][2]string{{"--lost-from", f.lostFrom}, {"--lost-until", f.lostUntil}} {
		if at, err := time.Parse(time.RFC3339, flag[1]); err != nil || shownTime(at) != flag[1] {
			return &usageError{fmt.Errorf("%s %q: give the time that you have compared as retrysafe restore check shows it, for example 2026-11-28T10:03:07Z", flag[0], flag[1])}
		}
	}
	return nil
}

func shownTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// lostTime says what may be gone.
func lostTime(h *retrysafe.StoreHistory) string {
	return fmt.Sprintf("what was recorded from %s to %s may be gone", shownTime(h.LostFrom), shownTime(h.LostUntil))
}

func (f *namespaceFlags) checkHistory(c *cobra.Command) (err error) {
	_, d, closeStore, err := f.openNamespace(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	h, err := d.StoreHistory(c.Context(), f.namespace)
	switch {
	case err != nil:
		return err
	case h.Marks == 0:
		fmt.Fprintf(c.OutOrStdout(), "namespace %s has no marks: no gateway of this version has run on it\n", Printable(f.namespace))
	case h.LostUntil.IsZero():
		fmt.Fprintf(c.OutOrStdout(), "namespace %s did not go back: %d marks, the last at %s\n", Printable(f.namespace), h.Marks, shownTime(h.Last))
	default:
		return fmt.Errorf("namespace %s went back to an older state: %s", Printable(f.namespace), lostTime(&h))
	}
	return nil
}

func (f *acceptFlags) acceptHistory(c *cobra.Command) (err error) {
	if err := errors.Join(f.requireTimes(), f.operator.validate(true)); err != nil {
		return err
	}
	s, d, closeStore, err := f.openNamespace(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	h, err := d.StoreHistory(c.Context(), f.namespace)
	if err != nil {
		return err
	}
	if h.LostUntil.IsZero() {
		fmt.Fprintf(c.OutOrStdout(), "namespace %s did not go back, as far as a process has noticed; nothing was changed\n", Printable(f.namespace))
		return nil
	}
	if err := f.requireLoss(&h); err != nil {
		return err
	}
	err = auditLog(s, f.namespace).Do(c.Context(), f.operator.entry("accept-restore", "namespace "+f.namespace, lostTime(&h)), func() error {
		return d.AcceptRestore(c.Context(), f.namespace, h)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), "namespace %s: %s. New keys run again within seconds, also those that ran in that time.\n", Printable(f.namespace), lostTime(&h))
	return nil
}
