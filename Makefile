# For those who have make; the scripts need none.
.PHONY: demo test bench soak lint format clean

demo:
	./demo.sh

test:
	./test.sh

bench:
	tools/setup.sh demo
	.venv/bin/mgi perf exchange --endpoints 4 --rows 4000000 --row-bytes 32 --repeat 5

# Random hostile schedules and random flows under both sanitizers, for so long.
soak:
	tools/soak.sh $(or $(MINUTES),10)

lint:
	./test.sh lint

format:
	tools/lint.sh --fix

clean:
	rm -rf build
