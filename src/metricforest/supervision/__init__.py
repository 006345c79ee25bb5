"""What a metric learns from: labelled pairs, triplets and class labels, checked and gathered."""
