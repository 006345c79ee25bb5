"""The numbers printed in the paper, for comparison only. Values of its figures are not known."""

CANDIDATES = (1, 3, 5, 10, 20, 30)
TABLE_1 = {  # mean average precision of the approximate search at k_O = CANDIDATES
    "sonar": (0.812, 0.965, 0.987, 0.997, 0.998, 0.998),
    "segmentation": (0.715, 0.904, 0.956, 0.987, 0.994, 0.995),
    "usps": (0.6559, 0.8700, 0.9274, 0.9710, 0.9897, 0.9945),
}
TABLE_2 = {  # its time as a share of that of brute force
    "sonar": (0.499, 0.547, 0.729, 0.860, 1.002, 0.997),
    "segmentation": (0.042, 0.074, 0.097, 0.147, 0.221, 0.270),
    "usps": (0.014, 0.034, 0.049, 0.076, 0.112, 0.136),
}
CONSTRAINTS = {
    "sonar": (60, 120, 180),
    "balance": (45, 90, 180),
    "segmentation": (70, 175, 350),
    "usps": (3_000, 5_000, 10_000),
}
TABLE_3 = {  # V-measure of semi-supervised clustering with so many constraints
    "sonar": {
        "Euclidean": (0.0493, 0.0493, 0.0493),
        "DCA": (0.0959, 0.1098, 0.1386),
        "ITML": (0.0650, 0.0555, 0.0644),
        "RFD": (0.0932, 0.1724, 0.2699),
        "HFD": (0.1267, 0.2296, 0.3518),
    },
    "balance": {
        "Euclidean": (0.2193, 0.2193, 0.2193),
        "DCA": (0.0490, 0.2430, 0.3817),
        "ITML": (0.2221, 0.1915, 0.2155),
        "RFD": (0.1398, 0.1980, 0.3004),
        "HFD": (0.3059, 0.5128, 0.6149),
    },
    "segmentation": {
        "Euclidean": (0.6393, 0.6393, 0.6393),
        "DCA": (0.0510, 0.2537, 0.6876),
        "ITML": (0.5682, 0.6365, 0.5931),
        "RFD": (0.7887, 0.8157, 0.8367),
        "HFD": (0.7788, 0.8090, 0.8367),
    },
    "usps": {
        "Euclidean": (0.6493, 0.6493, 0.6493),
        "DCA": (0.5413, 0.4359, 0.4473),
        "ITML": (0.6447, 0.6445, 0.6420),
        "RFD": (0.8248, 0.8402, 0.8745),
        "HFD": (0.7258, 0.7397, 0.9087),
    },
}
