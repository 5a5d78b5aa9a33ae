//! Circles in a graph, and an order of their members that leaves few arrows upwards.

/// A weight for each pair of numbers: how many arrows lead from the first to the second.
#[derive(Debug)]
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

    /// The members in an order, the lowest first, in which few arrows lead upwards.
    ///
    /// Takes away what leads to nothing, what nothing leads to, or else what most leads from (the heuristic
    /// of Eades, Lin and Smyth).
    pub(crate) fn order(&self, members: &[usize]) -> Vec<usize> {
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

    /// Counts the arrows that lead upwards in this order.
    pub(crate) fn upwards(&self, order: &[usize]) -> usize {
        let pairs = order
            .iter()
            .enumerate()
            .flat_map(|(place, low)| order[place + 1..].iter().map(move |high| (*low, *high)));
        pairs.map(|(low, high)| self.get(low, high)).sum()
    }
}

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
