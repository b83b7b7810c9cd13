package main

import "fmt"

// checkPages compares pages, or all that there are, with their twins, and prints in what they
// differ.
func checkPages(stamped bool, pages []string) error {
	var err error
	if len(pages) == 0 {
		if pages, err = listPages("."); err != nil {
			return err
		}
	}
	wrong := 0
	for _, page := range pages {
		if stamped {
			if err := stampTwin(page); err != nil {
				return err
			}
		}
		found, err := checkPage(page)
		if err != nil {
			return err
		}
		for _, f := range found {
			fmt.Println(f)
		}
		wrong += min(1, len(found))
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d pages differ from their twins", wrong, len(pages))
	}
	return nil
}
