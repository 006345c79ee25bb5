"""All experiments by name, in the order they run."""

from . import ablations, classification, clustering, neighbours, noise, retrieval

EXPERIMENTS = {
    module.NAME: module
    for module in (neighbours, clustering, classification, noise, ablations, retrieval)
}
