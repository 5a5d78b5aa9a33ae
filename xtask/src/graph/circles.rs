//! Circles in a graph, and the order of their members that leaves the fewest arrows upwards.

use std::collections::BTreeSet;

/// A weight for each pair of numbers: how many arrows lead from the first to the second.
#[derive(Debug, Clone)]
pub(crate) struct Weights {
    size: usize,
    cells: Vec<usize>,
}

impl Weights {
    pub(crate) fn new(size: usize) -> Self {
        Self {
            size,
            cells: vec![0; size * size],
        }
    }

    pub(crate) fn add(&mut self, from: usize, to: usize) {
        self.cells[from * self.size + to] += 1;
    }

    pub(crate) fn get(&self, from: usize, to: usize) -> usize {
        self.cells[from * self.size + to]
    }

    /// The same without the arrows between these pairs.
    pub(crate) fn without(&self, pairs: &BTreeSet<(usize, usize)>) -> Self {
        let mut weights = self.clone();
        for (from, to) in pairs {
            weights.cells[from * self.size + to] = 0;
        }
        weights
    }

    fn next(&self, from: usize) -> impl Iterator<Item = usize> {
        (0..self.size).filter(move |to| self.get(from, *to) > 0)
    }

    /// The sets of numbers that reach each other, each set sorted, those below before those that lead to
    /// them.
    ///
    /// This is Tarjan's algorithm. Sets of one are among the result.
    pub(crate) fn components(&self) -> Vec<Vec<usize>> {
        let mut search = Search {
            weights: self,
            index: vec![None; self.size],
            low: vec![0; self.size],
            on_stack: vec![false; self.size],
            stack: Vec::new(),
            seen: 0,
            found: Vec::new(),
        };
        for start in 0..self.size {
            if search.index[start].is_none() {
                search.visit(start);
            }
        }
        search.found
    }

    /// The sets of two and more numbers that reach each other, the largest first.
    pub(crate) fn circles(&self) -> Vec<Vec<usize>> {
        let mut found = self.components();
        found.retain(|members| members.len() > 1);
        found.sort_by_key(|members| std::cmp::Reverse(members.len()));
        found
    }

    /// The members in an order, the lowest first, in which few arrows lead upwards: the fewest if there are
    /// at most [`EXACT`] members, and otherwise about the fewest.
    pub(crate) fn order(&self, members: &[usize]) -> Vec<usize> {
        if members.len() <= EXACT {
            self.exact_order(members)
        } else {
            self.good_order(members)
        }
    }

    /// Dynamic programming over the subsets that may be below.
    fn exact_order(&self, members: &[usize]) -> Vec<usize> {
        let all = 1_usize << members.len();
        // For each subset: its cost, and which of it is on top.
        let mut best = vec![(usize::MAX, 0); all];
        best[0].0 = 0;
        for below in 0..all {
            let (cost, _) = best[below];
            for (top, member) in members.iter().enumerate() {
                if below & (1 << top) != 0 {
                    continue;
                }
                let upwards: usize = (0..members.len())
                    .filter(|low| below & (1 << low) != 0)
                    .map(|low| self.get(members[low], *member))
                    .sum();
                let entry = &mut best[below | (1 << top)];
                if cost + upwards < entry.0 {
                    *entry = (cost + upwards, top);
                }
            }
        }
        let mut rest = all - 1;
        let mut order = Vec::new();
        while rest != 0 {
            let top = best[rest].1;
            order.push(members[top]);
            rest &= !(1 << top);
        }
        order.reverse();
        order
    }

    /// Takes away what nothing leads to, what leads to nothing, or else what most leads from (the heuristic
    /// of Eades, Lin and Smyth).
    fn greedy_order(&self, members: &[usize]) -> Vec<usize> {
        let mut left = members.to_vec();
        let (mut bottom, mut top) = (Vec::new(), Vec::new());
        while !left.is_empty() {
            let out = |n: usize| -> usize { left.iter().map(|other| self.get(n, *other)).sum() };
            let into = |n: usize| -> usize { left.iter().map(|other| self.get(*other, n)).sum() };
            if let Some(place) = left.iter().position(|n| out(*n) == 0) {
                bottom.push(left.remove(place));
                continue;
            }
            let balance = |place: &usize| {
                let (out, into) = (out(left[*place]) as i64, into(left[*place]) as i64);
                (into == 0, out - into)
            };
            if let Some(place) = (0..left.len()).max_by_key(balance) {
                top.push(left.remove(place));
            }
        }
        top.reverse();
        bottom.extend(top);
        bottom
    }

    /// Moves members to better places until no such move helps, from several starts.
    fn good_order(&self, members: &[usize]) -> Vec<usize> {
        let sorted = self.greedy_order(members);
        let mut best: Option<(usize, Vec<usize>)> = None;
        for start in 0..STARTS {
            let mut order = sorted.clone();
            // Deterministic, so that two runs print the same.
            let mut state = start;
            for place in (1..order.len()).rev().take(order.len() * start) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                order.swap(place, (state >> 33) % (place + 1));
            }
            while self.improve(&mut order, 1) || self.improve(&mut order, members.len() / 2) {}
            let cost = self.upwards(&order);
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, order));
            }
        }
        best.map(|(_, order)| order).unwrap_or(sorted)
    }

    /// Moves runs of up to `longest` neighbours to better places.
    fn improve(&self, order: &mut [usize], longest: usize) -> bool {
        let mut improved = false;
        for from in 0..order.len() {
            for to in from + 1..=order.len().min(from + longest) {
                let gain = |passed: usize, run: &[usize], sign: i64| -> i64 {
                    let change =
                        |member: &usize| self.get(passed, *member) as i64 - self.get(*member, passed) as i64;
                    sign * run.iter().map(change).sum::<i64>()
                };
                let (mut best, mut change) = ((0, from), 0);
                for place in to..order.len() {
                    change += gain(order[place], &order[from..to], 1);
                    best = best.min((change, place + 1));
                }
                change = 0;
                for place in (0..from).rev() {
                    change += gain(order[place], &order[from..to], -1);
                    best = best.min((change, place));
                }
                if best.0 < 0 {
                    if best.1 > to {
                        order[from..best.1].rotate_left(to - from);
                    } else {
                        order[best.1..to].rotate_right(to - from);
                    }
                    improved = true;
                }
            }
        }
        improved
    }

    /// Counts the arrows that lead upwards in this order.
    pub(crate) fn upwards(&self, order: &[usize]) -> usize {
        let pairs = order
            .iter()
            .enumerate()
            .flat_map(|(place, low)| order[place + 1..].iter().map(move |high| (*low, *high)));
        pairs.map(|(low, high)| self.get(low, high)).sum()
    }
}

/// The best order of this many members is found, of more a good one.
const EXACT: usize = 15;
/// The number of random orders that are improved.
const STARTS: usize = 8;

struct Search<'a> {
    weights: &'a Weights,
    index: Vec<Option<usize>>,
    low: Vec<usize>,
    on_stack: Vec<bool>,
    stack: Vec<usize>,
    seen: usize,
    found: Vec<Vec<usize>>,
}

impl Search<'_> {
    fn visit(&mut self, node: usize) {
        self.index[node] = Some(self.seen);
        self.low[node] = self.seen;
        self.seen += 1;
        self.stack.push(node);
        self.on_stack[node] = true;
        for next in self.weights.next(node) {
            match self.index[next] {
                None => {
                    self.visit(next);
                    self.low[node] = self.low[node].min(self.low[next]);
                }
                Some(index) if self.on_stack[next] => self.low[node] = self.low[node].min(index),
                Some(_) => {}
            }
        }
        if Some(self.low[node]) == self.index[node] {
            let start = self.stack.iter().rposition(|other| *other == node).unwrap_or(0);
            let mut members = self.stack.split_off(start);
            for member in &members {
                self.on_stack[*member] = false;
            }
            members.sort_unstable();
            self.found.push(members);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Weights;

    fn weights(size: usize, arrows: &[(usize, usize)]) -> Weights {
        let mut weights = Weights::new(size);
        for (from, to) in arrows {
            weights.add(*from, *to);
        }
        weights
    }

    #[test]
    fn circles_are_found_and_chains_are_none() {
        let graph = weights(6, &[(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (5, 5)]);
        assert_eq!(graph.circles(), [vec![0, 1, 2]]);
        // The lowest set comes first.
        assert_eq!(graph.components()[0], [4]);
        assert_eq!(
            weights(3, &[(0, 1), (1, 2), (0, 2)]).circles(),
            Vec::<Vec<usize>>::new()
        );
    }

    #[test]
    fn the_weakest_arrow_is_the_one_that_leads_upwards() {
        let graph = weights(3, &[(0, 1), (0, 1), (1, 2), (1, 2), (2, 0)]);
        assert_eq!(graph.order(&[0, 1, 2]), [2, 1, 0]);
        assert_eq!(graph.upwards(&[2, 1, 0]), 1);
    }

    #[test]
    fn large_circles_are_ordered_as_well() {
        // A chain of 40 with one arrow back.
        let mut arrows: Vec<_> = (0..39).flat_map(|n| [(n, n + 1), (n, n + 1)]).collect();
        arrows.push((39, 0));
        let graph = weights(40, &arrows);
        let members: Vec<_> = (0..40).collect();
        let order = graph.order(&members);
        assert_eq!(graph.upwards(&order), 1);
    }
}
