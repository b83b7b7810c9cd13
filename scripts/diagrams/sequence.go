package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	edge      = 78 // of the first and last line of life to the border
	noteWidth = 148
	rowGap    = 12
)

var message = regexp.MustCompile(`^(.+?) (->|-->|--x) (.+?): (.+)$`)

// sequence is a picture of messages between actors.
type sequence struct {
	head
	canvas        // what stands on the lines of life
	below  canvas // the lines of life
	y      float64
	alive  []float64 // where each actor's line began; negative: crashed
}

func drawSequence(h head, rest []line) ([]byte, error) {
	s := &sequence{head: h, y: 62}
	for i, a := range h.actors {
		s.add(`<rect x="%.4g" y="12" width="130" height="30" rx="6" class="plain"/>`, s.x(i)-65)
		s.text(s.x(i), 32, "strong", a)
		s.alive = append(s.alive, 42)
	}
	for _, l := range rest {
		if err := s.statement(l.text); err != nil {
			return nil, fmt.Errorf("%d: %w", l.n, err)
		}
	}
	for i := range s.actors {
		s.lifeEnds(i, s.y+4)
	}
	s.below.b.WriteString(s.b.String())
	return s.below.svg(h, widest, int(s.y)+16), nil
}

func (s *sequence) x(i int) float64 {
	if len(s.actors) == 1 {
		return widest / 2
	}
	return edge + float64(i)*(widest-2*edge)/float64(len(s.actors)-1)
}

func (s *sequence) actor(name string) (int, error) {
	i := slices.Index(s.actors, name)
	if i < 0 {
		return 0, fmt.Errorf("no actor has the name %q", name)
	}
	return i, nil
}

// lifeEnds draws the line of an actor that lived until y.
func (s *sequence) lifeEnds(i int, y float64) {
	if s.alive[i] >= 0 {
		s.below.add(`<path d="M%.4g %.4g V%.4g" class="life"/>`, s.x(i), s.alive[i], y)
	}
}

func (s *sequence) statement(text string) error {
	if words, ok := strings.CutPrefix(text, "== "); ok {
		s.divider(strings.TrimSuffix(words, " =="))
		return nil
	}
	if m := message.FindStringSubmatch(text); m != nil {
		return s.message(m[1], m[2], m[3], m[4])
	}
	who, words, ok := strings.Cut(text, ": ")
	if !ok {
		return fmt.Errorf("%q is no statement", text)
	}
	verb, name, _ := strings.Cut(who, " ")
	switch verb {
	case "crash", "start":
		i, err := s.actor(name)
		if err != nil {
			return err
		}
		if (verb == "crash") != (s.alive[i] >= 0) {
			return fmt.Errorf("%s cannot %s now", name, verb)
		}
		s.turn(i, words)
		return nil
	}
	i, err := s.actor(who)
	if err != nil {
		return err
	}
	s.note(i, words)
	return nil
}

func (s *sequence) message(from, how, to, words string) error {
	a, err := s.actor(from)
	if err != nil {
		return err
	}
	b, err := s.actor(to)
	if err != nil || a == b {
		return fmt.Errorf("a message goes from one actor to another: %w", err)
	}
	for _, i := range []int{a, b} {
		if s.alive[i] < 0 && how != "--x" {
			return fmt.Errorf("%s has crashed", s.actors[i])
		}
	}
	from1, to1 := s.x(a), s.x(b)
	label := wrapped(words, max(to1-from1, from1-to1)-24)
	s.y += float64(len(label)*lineStep) / 2
	s.lines((from1+to1)/2, s.y, true, func(int) string { return "" }, label)
	s.y += float64(len(label)*lineStep)/2 + 6
	d := 1.0
	if to1 < from1 {
		d = -1
	}
	class := map[string]string{"->": "line", "-->": "line answer", "--x": "line answer lost"}[how]
	if how == "--x" {
		end := from1 + (to1-from1)*0.62
		s.add(`<path d="M%.4g %.4g H%.4g" class="%s"/>`, from1, s.y, end-d*9, class)
		s.cross(end, s.y, 6)
	} else {
		s.add(`<path d="M%.4g %.4g H%.4g" class="%s"/>`, from1, s.y, to1-d*5, class)
		s.arrowHead(to1, s.y, d, 0)
	}
	s.y += rowGap
	return nil
}

func (s *sequence) note(i int, words string) {
	class, words := kind(words)
	label := wrapped(words, noteWidth-14)
	height := float64(len(label)*lineStep) + 10
	x := min(max(s.x(i), noteWidth/2+4), widest-noteWidth/2-4)
	s.add(`<rect x="%.4g" y="%.4g" width="%d" height="%.4g" rx="5" class="%s"/>`, x-noteWidth/2, s.y, noteWidth, height, class)
	s.lines(x, s.y+height/2, false, func(int) string { return "" }, label)
	s.y += height + rowGap
}

// kind returns the colour that a note begins with, "good!" or "bad!", and the rest.
func kind(words string) (class, rest string) {
	for _, class := range []string{"good", "bad", "busy"} {
		if rest, ok := strings.CutPrefix(words, class+"! "); ok {
			return class, rest
		}
	}
	return "plain", words
}

// turn ends the line of an actor, or begins it again.
func (s *sequence) turn(i int, words string) {
	label := wrapped(words, noteWidth)
	if s.alive[i] >= 0 {
		s.lifeEnds(i, s.y+8)
		s.cross(s.x(i), s.y+8, 8)
		s.lines(s.x(i), s.y+22+float64(len(label)*lineStep)/2, false, func(int) string { return "badText" }, label)
		s.y += 26 + float64(len(label)*lineStep) + rowGap
		s.alive[i] = -1
		return
	}
	height := float64(len(label)*lineStep) + 10
	s.add(`<rect x="%.4g" y="%.4g" width="%d" height="%.4g" rx="6" class="plain"/>`, s.x(i)-65, s.y, 130, height)
	s.lines(s.x(i), s.y+height/2, false, func(int) string { return "strong" }, label)
	s.y += height
	s.alive[i] = s.y
	s.y += rowGap
}

func (s *sequence) divider(words string) {
	s.y += 10
	s.add(`<path d="M16 %.4g H%d" class="line answer life"/>`, s.y, widest-16)
	s.lines(widest/2, s.y, true, func(int) string { return "soft" }, wrapped(words, widest-80))
	s.y += 20
}
