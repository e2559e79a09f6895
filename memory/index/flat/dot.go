package flat

// dot is the scalar product. Two sums go side by side, because each addition
// would otherwise wait for the one before it; they are joined in one order, so
// the same vectors give the same bits, in dot4 too.
func dot(a, b []float32) float32 {
	var even, odd float32
	b = b[:len(a)]
	for len(a) >= 2 {
		x, y := (*[2]float32)(a), (*[2]float32)(b)
		even += x[0] * y[0]
		odd += x[1] * y[1]
		a, b = a[2:], b[2:]
	}
	if len(a) > 0 {
		even += a[0] * b[0]
	}
	return even + odd
}

// dot4 is dot with four vectors that stand one after the other: each component of
// a is fetched once for all of them.
func dot4(a, block []float32) [4]float32 {
	n := len(a)
	p, q, r, s := block[:n], block[n:2*n], block[2*n:3*n], block[3*n:4*n]
	var p0, p1, q0, q1, r0, r1, s0, s1 float32
	i := 0
	for ; i+2 <= n; i += 2 {
		x0, x1 := a[i], a[i+1]
		p0 += x0 * p[i]
		p1 += x1 * p[i+1]
		q0 += x0 * q[i]
		q1 += x1 * q[i+1]
		r0 += x0 * r[i]
		r1 += x1 * r[i+1]
		s0 += x0 * s[i]
		s1 += x1 * s[i+1]
	}
	if i < n {
		p0 += a[i] * p[i]
		q0 += a[i] * q[i]
		r0 += a[i] * r[i]
		s0 += a[i] * s[i]
	}
	return [4]float32{p0 + p1, q0 + q1, r0 + r1, s0 + s1}
}
