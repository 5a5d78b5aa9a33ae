package main

// The programs whose goroutines only compute.

import (
	"fmt"
	"math/bits"
	"os"
	"sync"
)

// escape is after how many iterations a point is known not to belong to Mandelbrot's set, or the limit.
func escape(point, side, limit uint64) uint16 {
	row, column := int64(point/side), int64(point%side)
	// In half points from the middle: rows that mirror each other differ in the sign alone.
	real := 1.5*float64(2*column+1-int64(side))/float64(side) - 0.5
	imaginary := 1.5 * float64(int64(side)-1-2*row) / float64(side)
	x, y := 0.0, 0.0
	for iteration := uint64(0); iteration < limit; iteration++ {
		// The conversions keep products and sums apart, so that all machines round alike.
		xx, yy := float64(x*x), float64(y*y)
		if xx+yy > 4 {
			return uint16(iteration)
		}
		y = float64(2*x*y) + imaginary
		x = xx - yy + real
	}
	return uint16(limit)
}

func mandelbrot(r *request, side uint64) *answer {
	parts, limit := r.number("parts"), r.number("iterations")
	points := side * side
	picture := make([]uint16, points)
	var done sync.WaitGroup
	start := now()
	for part := uint64(0); part < parts; part++ {
		done.Add(1)
		go func() {
			defer done.Done()
			for point := part * points / parts; point < (part+1)*points/parts; point++ {
				picture[point] = escape(point, side, limit)
			}
		}()
	}
	done.Wait()
	elapsed := now() - start
	sum := uint64(0)
	for point, found := range picture {
		sum += uint64(found)
		row, column := uint64(point)/side, uint64(point)%side
		if mirrored := picture[(side-1-row)*side+column]; found != mirrored {
			fail("point %d takes %d iterations, its mirror image %d", point, found, mirrored)
		}
	}
	for point := uint64(0); point < points; point += (points + 999) / 1000 {
		if again := escape(point, side, limit); picture[point] != again {
			fail("point %d takes %d iterations, %d expected", point, picture[point], again)
		}
	}
	if path := r.word("out"); path != "none" {
		drawn := []byte(fmt.Sprintf("P5\n%d %d\n255\n", side, side))
		for _, found := range picture {
			shade := byte(0)
			if uint64(found) != limit {
				shade = byte(255 - 14*bits.Len16(found))
			}
			drawn = append(drawn, shade)
		}
		if err := os.WriteFile(path, drawn, 0o644); err != nil {
			fail("the picture cannot be written: %v", err)
		}
	}
	result := perOperation(points, elapsed, "ns_per_point")
	result.Measures["iterations"] = float64(sum)
	return result
}

func square(side, byRow, byColumn uint64) []float64 {
	cells := make([]float64, side*side)
	for at := range cells {
		cells[at] = float64((uint64(at)/side*byRow + uint64(at)%side*byColumn) % 10)
	}
	return cells
}

// times is the product of a matrix and a vector.
func times(cells, vector []float64) []float64 {
	side := len(vector)
	product := make([]float64, side)
	for row := range product {
		for k, b := range vector {
			product[row] += cells[row*side+k] * b
		}
	}
	return product
}

func matrix(r *request, n uint64) *answer {
	tasks, side := r.number("tasks"), int(n)
	left, right := square(n, 7, 3), square(n, 1, 9)
	product := make([]float64, n*n)
	var done sync.WaitGroup
	start := now()
	for part := uint64(0); part < tasks; part++ {
		done.Add(1)
		go func() {
			defer done.Done()
			for row := int(part * n / tasks); row < int((part+1)*n/tasks); row++ {
				own := left[row*side : (row+1)*side]
				for column := 0; column < side; column++ {
					sum, at := 0.0, column
					for _, a := range own {
						sum += a * right[at]
						at += side
					}
					product[row*side+column] = sum
				}
			}
		}()
	}
	done.Wait()
	elapsed := now() - start
	vector, total := make([]float64, n), 0.0
	for at := range vector {
		vector[at] = float64(at%13 + 1)
	}
	expected, found := times(left, times(right, vector)), times(product, vector)
	for row := range expected {
		if expected[row] != found[row] {
			fail("row %d of the product is wrong: with a vector it is %v, %v expected", row, found[row], expected[row])
		}
	}
	for _, cell := range product {
		total += cell
	}
	result := perOperation(n*n*n, elapsed, "ns_per_multiplication")
	result.Measures["sum"] = total
	return result
}
