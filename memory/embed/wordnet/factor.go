package main

import (
	"cmp"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
)

// The range finder of Halko, Martinsson and Tropp: a few more directions than
// are kept, and a few powers, which separate those that matter from those that
// do not.
const (
	oversampling = 32
	powers       = 3
)

// negligible is the length of what rounding leaves of a column that lies in
// those before it.
const negligible = 1e-9

// dense is a matrix by rows.
type dense struct {
	rows, columns int
	values        []float64
}

func newDense(rows, columns int) dense { return dense{rows, columns, make([]float64, rows*columns)} }

func (d dense) row(i int) []float64 { return d.values[i*d.columns : (i+1)*d.columns] }

// factor returns, for each row of a matrix, where it lies along so many of the
// matrix's strongest directions, each as strong as the others: unscaled, the
// first would drown what tells words apart. It starts from one seed, and each
// sum has one order, so it gives the same each time on one kind of machine.
func factor(m sparse, dim int) dense {
	words := len(m.columns)
	transposed := m.transpose(words)
	chance := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same directions each time, on purpose
	sketch := newDense(words, dim+oversampling)
	for i := range sketch.values {
		sketch.values[i] = chance.NormFloat64()
	}
	basis := m.times(sketch)
	orthonormal(basis)
	for range powers {
		across := transposed.times(basis)
		orthonormal(across)
		basis = m.times(across)
		orthonormal(basis)
	}
	projected := transposed.times(basis) // words × directions; its Gram matrix has the squares of the singular values
	vectors := eigen(gram(projected))
	out := newDense(words, dim)
	for i := range words {
		from, to := basis.row(i), out.row(i)
		for k := range dim {
			sum := 0.0
			for j, x := range from {
				sum += x * vectors.row(j)[k]
			}
			to[k] = sum
		}
	}
	return out
}

func (m sparse) transpose(columns int) sparse {
	t := sparse{make([][]int32, columns), make([][]float32, columns)}
	for i := range m.columns {
		for k, j := range m.columns[i] {
			t.columns[j] = append(t.columns[j], int32(i))
			t.values[j] = append(t.values[j], m.values[i][k])
		}
	}
	return t
}

// times multiplies; each row is one goroutine's.
func (m sparse) times(d dense) dense {
	out := newDense(len(m.columns), d.columns)
	var workers sync.WaitGroup
	count := runtime.GOMAXPROCS(0)
	for worker := range count {
		workers.Go(func() {
			for i := worker; i < out.rows; i += count {
				to := out.row(i)
				for k, j := range m.columns[i] {
					value := float64(m.values[i][k])
					for c, x := range d.row(int(j)) {
						to[c] += value * x
					}
				}
			}
		})
	}
	workers.Wait()
	return out
}

// orthonormal makes the columns orthonormal, by Gram-Schmidt done twice, which
// is enough for rounding not to matter.
func orthonormal(d dense) {
	columns := make([][]float64, d.columns)
	for c := range columns {
		columns[c] = make([]float64, d.rows)
		for i := range d.rows {
			columns[c][i] = d.row(i)[c]
		}
		for range 2 {
			for _, before := range columns[:c] {
				along := dot(before, columns[c])
				for i, x := range before {
					columns[c][i] -= along * x
				}
			}
		}
		by := 0.0
		if length := math.Sqrt(dot(columns[c], columns[c])); length > negligible {
			by = 1 / length
		}
		for i := range columns[c] {
			columns[c][i] *= by
			d.row(i)[c] = columns[c][i]
		}
	}
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// gram returns the products of the columns with each other.
func gram(d dense) dense {
	out := newDense(d.columns, d.columns)
	for i := range d.rows {
		row := d.row(i)
		for a, x := range row {
			to := out.row(a)
			for b, y := range row {
				to[b] += x * y
			}
		}
	}
	return out
}

// eigen returns the eigenvectors of a symmetric matrix in columns, that of the
// greatest eigenvalue first, by Jacobi's rotations.
func eigen(a dense) dense {
	n := a.rows
	rotated := newDense(n, n)
	for i := range n {
		rotated.row(i)[i] = 1
	}
	for range 30 { // sweeps; it converges in fewer than ten
		if off(a) < 1e-18*dot(a.values, a.values) {
			break
		}
		for p := range n {
			for q := p + 1; q < n; q++ {
				rotate(a, rotated, p, q)
			}
		}
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(a.row(y)[y], a.row(x)[x]) })
	vectors := newDense(n, n)
	for k, from := range order {
		for i := range n {
			vectors.row(i)[k] = rotated.row(i)[from]
		}
	}
	return vectors
}

// off sums the squares beside the diagonal.
func off(a dense) (sum float64) {
	for i := range a.rows {
		for j, x := range a.row(i) {
			if i != j {
				sum += x * x
			}
		}
	}
	return sum
}

// rotate makes one element and its mirror zero.
func rotate(a, vectors dense, p, q int) {
	if a.row(p)[q] == 0 {
		return
	}
	theta := (a.row(q)[q] - a.row(p)[p]) / (2 * a.row(p)[q])
	t := math.Copysign(1, theta) / (math.Abs(theta) + math.Sqrt(theta*theta+1))
	cos := 1 / math.Sqrt(t*t+1)
	sin := t * cos
	for k := range a.rows {
		x, y := a.row(k)[p], a.row(k)[q]
		a.row(k)[p], a.row(k)[q] = cos*x-sin*y, sin*x+cos*y
	}
	rp, rq := a.row(p), a.row(q)
	for k := range rp {
		x, y := rp[k], rq[k]
		rp[k], rq[k] = cos*x-sin*y, sin*x+cos*y
	}
	for k := range a.rows {
		x, y := vectors.row(k)[p], vectors.row(k)[q]
		vectors.row(k)[p], vectors.row(k)[q] = cos*x-sin*y, sin*x+cos*y
	}
}
