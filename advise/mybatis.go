package advise

import "strconv"

// replaceMyBatisParameters replaces MyBatis parameters, #{id} and ${id}, by those of the dialect,
// padded with blanks before them so that all positions stay the same. It does not change quotes and
// comments.
func replaceMyBatisParameters(text string, d Dialect) string {
	var out []byte // nil: no parameters found
	numbers := map[string]int{}
	for i := 0; i < len(text); {
		if end := quotedEnd(text, i); end > i {
			i = end
			continue
		}
		end := placeholderEnd(text, i)
		if end < 0 {
			i++
			continue
		}
		name := text[i+2 : end-1]
		if numbers[name] == 0 {
			numbers[name] = len(numbers) + 1
		}
		with := "?"
		if d != MySQL { // the same name means the same value
			with = map[Dialect]string{PostgreSQL: "$", SQLite: "?"}[d] + strconv.Itoa(numbers[name])
		}
		if len(with) > end-i {
			i = end
			continue
		}
		if out == nil {
			out = []byte(text)
		}
		for at := range out[i:end] {
			out[i+at] = ' '
		}
		copy(out[end-len(with):], with)
		i = end
	}
	if out == nil {
		return text
	}
	return string(out)
}

// mostName is the length in bytes of the longest parameter that is recognized.
const mostName = 200

// placeholderEnd returns the end of a MyBatis parameter that begins at i, or a negative number if
// there is none.
func placeholderEnd(text string, i int) int {
	if i+3 >= len(text) || text[i] != '#' && text[i] != '$' || text[i+1] != '{' {
		return -1
	}
	for at := i + 2; at < len(text) && at < i+mostName; at++ {
		switch text[at] {
		case '}':
			return at + 1
		case '{', '\n', ';', '\'', '"':
			return -1
		}
	}
	return -1
}

// quotedEnd returns the end of a quoted text or a comment that begins at i, or i if there is none.
func quotedEnd(text string, i int) int {
	rest := text[i:]
	until := func(end string, from int) int {
		for at := from; at < len(rest); at++ {
			if rest[at] == '\\' && end != "\n" && end != "*/" {
				at++
				continue
			}
			if len(rest)-at >= len(end) && rest[at:at+len(end)] == end {
				return i + at + len(end)
			}
		}
		return len(text)
	}
	switch {
	case rest[0] == '\'', rest[0] == '"', rest[0] == '`':
		return until(rest[:1], 1)
	case len(rest) > 1 && rest[:2] == "--":
		return until("\n", 2)
	case len(rest) > 1 && rest[:2] == "/*":
		return until("*/", 2)
	}
	return i
}
