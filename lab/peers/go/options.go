package main

// European options on binomial lattices, a goroutine per step in time.

import "math"

type option struct {
	call                    bool
	spot, strike            float64
	rate, volatility, years float64
	steps                   uint64
	up, rises, falls        float64
	known                   float64
}

// normal is the share of a normal distribution below x.
func normal(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

// blackScholes is the price in closed form.
func (o *option) blackScholes() float64 {
	deviation := o.volatility * math.Sqrt(o.years)
	first := (math.Log(o.spot/o.strike) + (o.rate+o.volatility*o.volatility/2)*o.years) / deviation
	second := first - deviation
	present := o.strike * math.Exp(-o.rate*o.years)
	if o.call {
		return o.spot*normal(first) - present*normal(second)
	}
	return present*normal(-second) - o.spot*normal(-first)
}

func (o *option) leaves() []float64 {
	values := make([]float64, o.steps+1)
	price, square := o.spot*math.Pow(o.up, -float64(o.steps)), o.up*o.up
	for i := range values {
		paid := o.strike - price
		if o.call {
			paid = -paid
		}
		values[i] = max(paid, 0)
		price *= square
	}
	return values
}

func (o *option) back(values []float64) []float64 {
	for i := 1; i < len(values); i++ {
		values[i-1] = o.rises*values[i] + o.falls*values[i-1]
	}
	return values[:len(values)-1]
}

// drawn are options within a deviation of their forward prices.
func drawn(n, steps, heavySteps uint64, heavy []bool) []option {
	state := uint64(0x0971)
	between := func(least, most float64) float64 {
		state = scramble(state)
		return least + float64(state>>11)/(1<<53)*(most-least)
	}
	options := make([]option, n)
	for i := range options {
		o := &options[i]
		o.spot, o.rate = between(20, 500), between(0, 0.05)
		o.volatility, o.years = between(0.15, 0.5), between(0.1, 2)
		o.strike = o.spot * math.Exp(o.rate*o.years+between(-1, 1)*o.volatility*math.Sqrt(o.years))
		o.call = between(0, 1) < 0.5
		o.steps = steps
		if heavy[i] {
			o.steps = heavySteps
		}
		step := o.years / float64(o.steps)
		o.up = math.Exp(o.volatility * math.Sqrt(step))
		grown := math.Exp(o.rate * step)
		rises := (grown - 1/o.up) / (o.up - 1/o.up)
		o.rises, o.falls = rises/grown, (1-rises)/grown
		o.known = o.blackScholes()
	}
	return options
}

// walk is one goroutine of a lattice; the last calls end with the price.
func (o *option) walk(values []float64, end func(price float64)) {
	if values == nil {
		values = o.leaves()
	} else {
		values = o.back(values)
	}
	if len(values) == 1 {
		end(values[0])
	} else {
		go o.walk(values, end)
	}
}

func priceOptions(r *request, n uint64) *answer {
	spawners, share, window := perSpawner(r, n)
	null := r.word("handlers") == "none"
	heavy := chosenOfThousand(share*spawners, r.number("heavy"))
	options := drawn(share*spawners, r.number("steps"), r.number("heavy-steps"), heavy)
	var wrong counter
	lanes := make([]*lane, spawners)
	for s := range lanes {
		l := newLane(share, window)
		own := options[uint64(s)*share : uint64(s+1)*share]
		l.heavy = heavy[uint64(s)*share : uint64(s+1)*share]
		lanes[s] = l
		go func() {
			l.start = now()
			for i := uint64(0); i < share; i++ {
				l.admit(i)
				started := now()
				if null {
					l.finish(i, started, 0)
					continue
				}
				o := &own[i]
				go o.walk(nil, func(price float64) {
					// A price that is no number is wrong, too.
					if !(math.Abs(price-o.known) <= o.known*2/float64(o.steps)) {
						wrong.add(i, 1)
					}
					l.finish(i, started, o.steps)
				})
			}
		}()
	}
	result, tally := land(lanes, share, !null)
	steps := uint64(0)
	for i := range options {
		steps += options[i].steps
	}
	if null {
		steps = 0
	}
	if wrong.sum() > 0 {
		fail("prices too far from the closed form: %d counted, 0 expected", wrong.sum())
	}
	if tally != steps {
		fail("steps: %d counted, %d expected", tally, steps)
	}
	if !null {
		result.Measures["heavy_options"] = float64(count(heavy))
		result.Measures["tasks_per_second"] = float64(steps+result.Operations) / (float64(result.Nanos) / 1e9)
	}
	return result
}
