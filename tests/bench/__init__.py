"""Speed against others, in ratios of one run:  python3 -m tests.bench"""
