package fingerprint

import "strconv"

// readNumber reads a number and writes it, either as it stands or by value, in the format of
// ECMAScript and so of RFC 8785. All digits count: nothing is rounded.
func (r *jsonReader) readNumber() bool {
	start := r.pos
	negative := r.peekByte() == '-'
	if negative {
		r.pos++
	}
	whole := r.readDigits()
	if len(whole) == 0 || len(whole) > 1 && whole[0] == '0' {
		return r.setError("a number has no digits, or a zero too many in front")
	}
	var fraction []byte
	if r.peekByte() == '.' {
		r.pos++
		if fraction = r.readDigits(); len(fraction) == 0 {
			return r.setError("a number has no digits after its point")
		}
	}
	exponent := 0
	if c := r.peekByte(); c == 'e' || c == 'E' {
		r.pos++
		var ok bool
		if exponent, ok = r.readExponent(); !ok {
			return r.setError("a number has no digits in its exponent")
		}
	}
	written := r.src[start:r.pos]
	if len(whole) <= 21 && len(written) <= len(whole)+1 && (whole[0] != '0' || r.asWritten) {
		// only a sign and digits: an integer is its own canonical form
		r.out = append(r.out, written...)
		return true
	}
	all := append(append(r.scratch[:0], whole...), fraction...)
	r.scratch = all
	point := len(whole) + exponent // the value is 0.all × 10^point
	for len(all) > 0 && all[0] == '0' {
		all = all[1:]
		point--
	}
	for len(all) > 0 && all[len(all)-1] == '0' {
		all = all[:len(all)-1]
	}
	if len(all) > 0 && (point > 309 || point < -323) {
		return r.setError("a number is out of range; most programs would read it as infinite or zero")
	}
	switch {
	case r.asWritten:
		r.out = append(r.out, written...)
	case len(all) == 0:
		r.out = append(r.out, '0')
	default:
		if negative {
			r.out = append(r.out, '-')
		}
		r.writeDecimal(all, point)
	}
	return true
}

func (r *jsonReader) readDigits() []byte {
	start := r.pos
	for r.pos < len(r.src) && r.src[r.pos] >= '0' && r.src[r.pos] <= '9' {
		r.pos++
	}
	return r.src[start:r.pos]
}

// readExponent reads what follows the e. Once the value exceeds mostBytes it ignores further
// digits: no body has as many digits, so the number is out of range anyway.
func (r *jsonReader) readExponent() (int, bool) {
	negative := r.peekByte() == '-'
	if negative || r.peekByte() == '+' {
		r.pos++
	}
	digits := r.readDigits()
	n := 0
	for _, c := range digits {
		if n <= mostBytes {
			n = n*10 + int(c-'0')
		}
	}
	if negative {
		n = -n
	}
	return n, len(digits) > 0
}

// writeDecimal writes 0.digits × 10^point like ECMAScript's Number::toString with the same digits.
func (r *jsonReader) writeDecimal(digits []byte, point int) {
	b := r.out
	switch n := len(digits); {
	case point > 21 || point <= -6:
		b = append(b, digits[0])
		if n > 1 {
			b = append(append(b, '.'), digits[1:]...)
		}
		b = append(b, 'e')
		if point > 0 {
			b = append(b, '+')
		}
		b = strconv.AppendInt(b, int64(point-1), 10)
	case point <= 0:
		b = append(b, '0', '.')
		for range -point {
			b = append(b, '0')
		}
		b = append(b, digits...)
	case n <= point:
		b = append(b, digits...)
		for range point - n {
			b = append(b, '0')
		}
	default:
		b = append(append(append(b, digits[:point]...), '.'), digits[point:]...)
	}
	r.out = b
}
