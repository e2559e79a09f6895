package engine

// Share divides places for runs between roots and children that are due, so that
// neither keeps the other waiting: each gets half, and what it does not need goes
// to the other. An odd place goes to the roots where rootsFirst says so. Counts
// beyond the places need not be exact.
func Share(places, roots, children int, rootsFirst bool) (ofRoots, ofChildren int) {
	half := places / 2
	if rootsFirst {
		half = places - half
	}
	ofRoots = min(roots, max(half, places-children))
	return ofRoots, min(children, places-ofRoots)
}
